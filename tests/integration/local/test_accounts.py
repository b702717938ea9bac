"""As root: the account that runs Postgres is let through, and nobody else is."""

import os
import stat

import pytest

from app.errors import UsageError
from app.local import accounts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root lends Postgres an account")


@pytest.fixture
def account():
    return accounts.postgres_account()


def can_pass(account, folder):
    return accounts.run_as(account, ["ls", folder / "open"]).returncode == 0


@pytest.fixture
def closed(folder):
    """…/closed (0700) / data (0700) / open (0755)."""
    data = folder / "closed" / "data"
    (data / "open").mkdir(parents=True)
    for path in (data.parent, data):
        path.chmod(0o700)
    return data


def test_closed_folders_let_the_account_pass_but_not_list(account, closed):
    assert not can_pass(account, closed)
    accounts.let_through(account, closed)
    assert can_pass(account, closed)
    assert accounts.run_as(account, ["ls", closed]).returncode != 0


def test_others_stay_outside(account, closed):
    accounts.let_through(account, closed)
    stranger = accounts.Account("stranger", 54321, 54321)
    assert not can_pass(stranger, closed)
    assert stat.S_IMODE(closed.stat().st_mode) & 0o007 == 0


def test_letting_through_again_after_a_chmod_works(account, closed):
    accounts.let_through(account, closed)
    closed.chmod(0o700)
    assert not can_pass(account, closed)
    accounts.let_through(account, closed)
    assert can_pass(account, closed)


def test_without_access_lists_the_folder_is_opened_for_passing(account, closed, monkeypatch):
    def refuse(*_):
        raise OSError("not supported")

    monkeypatch.setattr(accounts, "_add_entry", refuse)
    accounts.let_through(account, closed)
    assert can_pass(account, closed)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o701


def test_where_even_that_is_refused_the_error_says_what_to_do(account, closed, monkeypatch):
    def refuse(*_, **__):
        raise OSError("read-only")

    monkeypatch.setattr(accounts, "_add_entry", refuse)
    monkeypatch.setattr("pathlib.Path.chmod", refuse)
    with pytest.raises(UsageError, match=r"run `chmod o\+x .*`, or choose another folder"):
        accounts.let_through(account, closed)
