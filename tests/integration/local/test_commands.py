"""`up`, `down` and `status` as a person types them, over stacks of servers only."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
import typer
from typer.testing import CliRunner

from app.cli import stack
from app.errors import DatabaseUnavailable, StackRunning, UsageError
from app.local import ports

SERVERS = ("--only", "postgres", "--only", "valkey")

POOL = {
    "name": "main",
    "limit": 3,
    "reason": "growing",
    "batch_in_flight": 2,
    "interactive_in_flight": 1,
    "total": 8,
}


@pytest.fixture
def giveway(folder, monkeypatch):
    """Runs a command on a data folder of its own; it is stopped at the end."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(stack, "_pools", lambda _settings: [POOL])
    with without_settings():
        yield lambda *words: typed(*words, data="data")
        typed("down", data="data")


@contextmanager
def without_settings():
    """No setting of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIVEWAY_")]:
            patch.delenv(name)
        yield


def typed(*words, data):
    app = typer.Typer()
    stack.register(app)
    result = CliRunner().invoke(app, [*words, "--data", str(data)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def kept():
    """A data folder and what `up` said: one stack for those who destroy nothing."""
    with TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True) as path:
        data = Path(path).resolve() / "data"
        with without_settings():
            up = typed("up", "--detach", *SERVERS, data=data)
            assert up.exit_code == 0, up.output
            yield data, up.stdout
            typed("down", data=data)


@pytest.fixture
def at_kept(kept, monkeypatch):
    """Runs a command on the stack that runs already."""
    monkeypatch.setattr(stack, "_pools", lambda _settings: [POOL])
    with without_settings():
        yield lambda *words: typed(*words, data=kept[0])


def test_up_tells_how_to_reach_it_and_hides_the_passwords(at_kept, kept):
    data, said = kept
    status = json.loads(at_kept("status", "--json").stdout)
    assert f"the stack on {data} is ready (pid {status['supervisor']['pid']})" in said
    assert "postgresql://giveway:***@127.0.0.1" in said
    secrets = [(data / "secrets" / name).read_text() for name in ("postgres", "valkey")]
    shown = at_kept("status", "--json", "--show-secrets").stdout
    with psycopg.connect(json.loads(shown)["database_url"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for secret in secrets:
        assert secret not in said + at_kept("status", "--json").stdout + at_kept("status").stdout
        assert secret in shown
        assert secret in at_kept("status", "--show-secrets").stdout


def test_status_is_one_document_with_every_process(at_kept):
    found = json.loads(at_kept("status", "--json").stdout)
    assert found["running"] is True
    assert [one["name"] for one in found["processes"]] == ["postgres", "valkey"]
    assert {one["state"] for one in found["processes"]} == {"running"}
    assert found["pools"] == [POOL]
    assert "postgres" in at_kept("status").stdout


def test_status_goes_on_when_the_database_does_not_answer(at_kept, monkeypatch):
    def fails(_settings):
        raise DatabaseUnavailable("Postgres does not answer")

    monkeypatch.setattr(stack, "_pools", fails)
    found = json.loads(at_kept("status", "--json").stdout)
    assert (found["pools"], found["error"]) == (None, "Postgres does not answer")


def test_where_nothing_runs_status_says_so_with_1_and_down_with_0(giveway):
    result = giveway("status", "--json")
    assert (result.exit_code, json.loads(result.stdout)["running"]) == (1, False)
    assert "no stack runs" in giveway("status").stdout
    result = giveway("down")
    assert (result.exit_code, result.stdout) == (0, "no stack runs on data\n")


def test_a_second_up_is_refused_in_either_way(at_kept):
    for words in (("up", *SERVERS), ("up", "--detach", *SERVERS)):
        with pytest.raises(StackRunning, match="giveway down --data"):
            at_kept(*words)


def test_ports_can_be_given_and_a_taken_one_is_named(giveway, folder):
    port = str(ports.choose(folder, "a test"))
    giveway("up", "--detach", "--valkey-port", port, *SERVERS)
    assert f":{port}/0" in json.loads(giveway("status", "--json").stdout)["broker_url"]
    giveway("down")
    taken = pytest.raises(UsageError, match=f"port {port} for valkey is taken")
    with socket.create_server((ports.HOST, int(port))), taken:
        giveway("up", "--valkey-port", port, *SERVERS)


def test_passwords_and_addresses_can_only_be_read_by_their_owner(kept):
    private = ["stack.json", "secrets/postgres", "secrets/valkey", "valkey/valkey.conf"]
    modes = {name: stat.S_IMODE((kept[0] / name).stat().st_mode) for name in private}
    assert set(modes.values()) == {0o600}, modes


def test_ctrl_c_ends_a_stack_in_the_foreground_in_order(folder):
    code = (
        "import typer\nfrom app.cli.stack import register\n"
        "app = typer.Typer()\nregister(app)\napp()"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIVEWAY_")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, "up", "--data", "data", *SERVERS],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    lines = []
    with process, process.stdout as stream:
        for line in stream:
            lines.append(line)
            if "ready; Ctrl-C stops everything" in line:
                time.sleep(0.2)
                os.killpg(process.pid, signal.SIGINT)  # as the terminal does
    said = "".join(lines)
    assert process.returncode == 0
    assert "\x1b[" not in said
    assert said.index("Valkey is now ready to exit") < said.index("database system is shut down")
