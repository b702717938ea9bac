"""Whole stacks of real servers, as processes of their own, killed in every way."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import psutil
import psycopg
import pytest
import redis

from app.errors import StackRunning, Unavailable
from app.local import background
from app.local.leftovers import postgres_processes, process_of
from app.local.options import StackOptions
from app.local.state import environment_of, running_state
from tests.waiting import until

SERVERS = ("postgres", "valkey")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, folder):
    for name in [name for name in os.environ if name.startswith("GIVEWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)


@contextmanager
def a_stack(data, **more):
    state = background.start(StackOptions(data, only=SERVERS, **more))
    try:
        yield state
    finally:
        background.stop(data)


def birth(data, name):
    state = running_state(data)
    return next(one.birth for one in state.processes if one.name == name)


def alive(births):
    return [one for one in births if process_of(one) is not None]


def running_again(data, name, killed):
    def found():
        state = running_state(data)
        one = next(one for one in state.processes if one.name == name)
        return one.birth not in (None, killed) and one.state == "running" and one

    return until(found)


def test_a_stack_is_reached_by_what_it_says_and_leaves_nothing(folder):
    with a_stack(folder / "data") as state:
        told = environment_of(folder / "data")
        with psycopg.connect(told["GIVEWAY_DATABASE__URL"]) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
        with redis.Redis.from_url(told["GIVEWAY_BROKER__URL"]) as client:
            assert client.ping()
        births = [state.supervisor, *(one.birth for one in state.processes)]
        assert len(alive(births)) == 3
    assert alive(births) == []
    assert postgres_processes(folder / "data" / "postgres") == []
    assert environment_of(folder / "data") is None


def test_a_killed_postgres_is_back_with_its_data_though_a_backend_was_busy(folder):
    data = folder / "data"
    with a_stack(data) as state:
        url = state.addresses.database_url
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
        busy = subprocess.Popen(
            [sys.executable, "-c", f"""
import psycopg
with psycopg.connect({url!r}) as c:
    c.execute("SELECT count(*) FROM generate_series(1, 1000000000)")
"""], stderr=subprocess.DEVNULL)  # fmt: skip
        until(lambda: len(_busy_backends(url)) == 1)
        killed = birth(data, "postgres")
        os.kill(killed.pid, signal.SIGKILL)
        again = running_again(data, "postgres", killed)
        assert again.restarts == 1
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (42,)
        busy.wait(60)


def _busy_backends(url):
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%generate_series%' "
            "AND state = 'active' AND pid <> pg_backend_pid()"
        ).fetchall()


def test_a_killed_valkey_is_back_and_one_that_was_told_to_end_has_its_messages(folder):
    """What people ask is for no disk while it runs: who waits when it is killed asks again."""
    data = folder / "data"
    with a_stack(data) as state, redis.Redis.from_url(state.addresses.broker_url) as client:
        for how, there in ((signal.SIGTERM, b"hello"), (signal.SIGKILL, None)):
            client.lpush("interactive", "hello")
            ended = birth(data, "valkey")
            os.kill(ended.pid, how)
            running_again(data, "valkey", ended)
            assert client.rpop("interactive") == there


def test_no_orphan_survives_a_killed_supervisor_and_the_data_is_there_again(folder):
    data = folder / "data"
    with a_stack(data) as state:
        url = state.addresses.database_url
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
        births = [one.birth for one in state.processes]
        os.kill(state.supervisor.pid, signal.SIGKILL)
        until(lambda: alive(births) == [])
        until(lambda: postgres_processes(data / "postgres") == [])
        assert environment_of(data) is None
        with a_stack(data) as again:
            assert again.addresses == state.addresses
            with psycopg.connect(url) as connection:
                assert connection.execute("SELECT n FROM kept").fetchone() == (42,)


def test_everything_killed_at_once_comes_up_again(folder):
    data = folder / "data"
    with a_stack(data) as state:
        pids = [state.supervisor.pid, *(one.birth.pid for one in state.processes)]
        pids += [process.pid for process in postgres_processes(data / "postgres")]
        for pid in set(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with a_stack(data) as again, psycopg.connect(again.addresses.database_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_leftover_that_the_kernel_did_not_end_is_ended_at_the_next_start(folder):
    data = folder / "data"
    with a_stack(data) as state:
        path = data / "stack.json"
        raw = json.loads(path.read_text())
    stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    created = psutil.Process(stray.pid).create_time()
    raw["processes"] = [
        {
            "name": "batch",
            "state": "running",
            "restarts": 0,
            "birth": {"pid": stray.pid, "created_at": created},
        },
        {
            "name": "beat",
            "state": "running",
            "restarts": 0,
            "birth": {"pid": os.getpid(), "created_at": 1.0},  # a reused pid: ours
        },
    ]
    raw["supervisor"] = {"pid": state.supervisor.pid, "created_at": 1.0}
    path.write_text(json.dumps(raw))
    with a_stack(data):
        assert stray.wait(60) == -signal.SIGTERM


def test_a_second_up_refuses_and_the_first_goes_on(folder):
    with a_stack(folder / "data") as state:
        with pytest.raises(StackRunning, match=f"pid {state.supervisor.pid}"):
            background.start(StackOptions(folder / "data", only=SERVERS))
        assert running_state(folder / "data") == state


def test_two_stacks_side_by_side_do_not_meet(folder):
    with a_stack(folder / "a") as a, a_stack(folder / "b") as b:
        assert a.addresses.database_url != b.addresses.database_url
        with psycopg.connect(a.addresses.database_url) as connection:
            connection.execute("CREATE TABLE only_in_a (n int)")
        with psycopg.connect(b.addresses.database_url) as connection:
            found = connection.execute("SELECT to_regclass('only_in_a')").fetchone()
        assert found == (None,)


def test_a_start_that_fails_says_why_and_leaves_nothing(folder):
    data = folder / "data"
    with a_stack(data):
        pass
    (data / "postgres" / "global" / "pg_control").write_bytes(b"")
    with pytest.raises(Unavailable, match=r"(?s)postgres died 5 times in a row.*pg_control"):
        background.start(StackOptions(data, only=SERVERS))
    assert running_state(data) is None
    assert background.stop(data) is False
