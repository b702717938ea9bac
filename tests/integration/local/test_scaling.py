"""The scaling agent with real endpoint processes: registered, drained, ended, never orphaned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from app.domain.autoscale import scaled_name
from app.domain.events import Event
from app.local.leftovers import Birth, process_of
from app.local.scaled import agent as scaled_agent
from app.local.scaled.agent import Agent, Orders
from app.local.scaled.member import Phase
from app.local.scaled.roster import SharedRoster
from app.local.scaled.steps import Standing, Steps, steps
from tests.rig import MakeRig, Rig
from tests.waiting import until

SERVE = (
    *(sys.executable, "-m", "app.inference.simulated", "--host", "{host}", "--port", "{port}"),
    *("--places", "8", "--models", "fake-chat", "fake-embed", "--ledger"),
)


class Notes:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    def saw(self, event: Event) -> None:
        self.seen.append(event)


def wanted(one: Rig, count: int) -> None:
    one.execute(
        "INSERT INTO scalers (pool, wanted, state) VALUES ('main', :n, '{}')"
        " ON CONFLICT (pool) DO UPDATE SET wanted = :n",
        n=count,
    )


def orders(**more: Any) -> Orders:
    given = {
        "pool": "main",
        "kind": "simulated",
        "models": ("fake-chat", "fake-embed"),
        "max_concurrency": 8,
        "command": SERVE,
        "minimum": 0,
        "start_timeout_s": 30.0,
        "drain_timeout_s": 30.0,
    }
    return Orders(**{**given, **more})


Make = Callable[..., tuple[Rig, Agent, Notes]]


@pytest.fixture
def agent(rig: MakeRig, tmp_path: Path) -> Iterator[Make]:
    made: list[Agent] = []

    def make(**more: Any) -> tuple[Rig, Agent, Notes]:
        one, notes = rig(), Notes()
        roster = SharedRoster(one.wiring.database, one.wiring.endpoints)
        made.append(Agent(orders(**more), roster, tmp_path, notes))
        made[-1].begin()
        return one, made[-1], notes

    yield make
    for one in made:
        one.finish(0.0)


def names(one: Rig) -> list[str]:
    return [
        name
        for (name,) in one.rows("SELECT name FROM endpoints WHERE added IS NOT NULL ORDER BY name")
    ]


def steps_until(agent: Agent, true: Callable[[], object], within_s: float = 30) -> None:
    def stepped() -> object:
        agent.step()
        return true()

    until(stepped, within_s, "the agent's work")


def processes(folder: Path) -> list[psutil.Process]:
    """Those of the record that live."""
    entries = json.loads((folder / "main" / "scaling.json").read_text())
    births = [Birth(**entry["birth"]) for entry in entries]
    return [found for birth in births if (found := process_of(birth)) is not None]


STARTING, SERVING, LEAVING = Phase.STARTING, Phase.SERVING, Phase.LEAVING


@pytest.mark.parametrize(
    ("count", "phases", "expected"),
    [
        (2, [], Steps(start=2)),
        (2, [SERVING, STARTING], Steps()),
        (1, [SERVING, SERVING], Steps(drain=("1",))),
        (1, [SERVING, STARTING], Steps(end=("1",))),
        (0, [SERVING, STARTING, SERVING], Steps(drain=("2", "0"), end=("1",))),
        (2, [SERVING, LEAVING], Steps(keep=("1",))),
        (3, [LEAVING, SERVING], Steps(start=1, keep=("0",))),
        (1, [LEAVING, SERVING], Steps()),
    ],
)
def test_whom_to_start_keep_drain_and_end(count: int, phases: list[Phase], expected: Steps) -> None:
    assert steps(count, [Standing(str(n), phase) for n, phase in enumerate(phases)]) == expected


def test_what_is_wanted_serves_in_the_pool_and_goes_when_it_is_not(
    agent: Make, tmp_path: Path
) -> None:
    one, keeper, _ = agent()
    wanted(one, 2)
    steps_until(keeper, lambda: len(names(one)) == 2)
    running = processes(tmp_path)
    answers = [
        httpx2.get(f"{row[0]}/models").status_code
        for row in one.rows("SELECT base_url FROM endpoints WHERE added IS NOT NULL")
    ]
    assert answers == [200, 200]
    assert one.wiring.reporting.report(60).pools[0].total == 32 + 16

    wanted(one, 1)
    steps_until(keeper, lambda: len(names(one)) == 1)
    assert [p.is_running() and p.status() != "zombie" for p in running] == [True, False]
    keeper.finish(5)
    assert (names(one), processes(tmp_path)) == ([], [])
    assert not running[0].is_running()


def test_a_leaving_endpoint_finishes_what_it_has_and_gets_nothing_new(
    agent: Make, tmp_path: Path
) -> None:
    one, keeper, _ = agent()
    wanted(one, 1)
    steps_until(keeper, lambda: names(one))
    (name,) = names(one)
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, lease_until) VALUES (gen_random_uuid(), 'main', 'chat',"
        " 'fake-chat', :name, 'running', now(), now(), now() + interval '1 min')",
        name=name,
    )
    wanted(one, 0)
    for _ in range(10):
        keeper.step()
    assert one.rows("SELECT draining FROM endpoints WHERE name = :n", n=name) == [(True,)]
    assert processes(tmp_path)[0].is_running()

    one.execute("UPDATE interactive_requests SET state = 'done', finished_at = now()")
    keeper.step()
    assert names(one) == []


def test_one_that_is_wanted_again_while_it_leaves_stays(agent: Make, tmp_path: Path) -> None:
    one, keeper, _ = agent()
    wanted(one, 1)
    steps_until(keeper, lambda: names(one))
    before = processes(tmp_path)
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, lease_until) VALUES (gen_random_uuid(), 'main', 'chat',"
        " 'fake-chat', :name, 'running', now(), now(), now() + interval '1 min')",
        name=names(one)[0],
    )
    wanted(one, 0)
    keeper.step()
    wanted(one, 1)
    keeper.step()

    assert one.one("SELECT count(*) FROM endpoints WHERE added IS NOT NULL AND NOT draining") == 1
    assert processes(tmp_path) == before


def test_one_that_dies_leaves_the_pool_at_once_and_another_comes(
    agent: Make, tmp_path: Path
) -> None:
    one, keeper, notes = agent()
    wanted(one, 1)
    steps_until(keeper, lambda: names(one))
    (dead,) = processes(tmp_path)
    dead.kill()
    steps_until(keeper, lambda: names(one) == [], 5)
    steps_until(keeper, lambda: names(one))

    assert processes(tmp_path) != [dead]
    assert [type(event).__name__ for event in notes.seen] == ["ScaleFailed"]


def test_a_command_that_cannot_work_is_tried_later_and_later(
    agent: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock stands still but for what the test adds."""
    now_s = [time.monotonic()]
    monkeypatch.setattr(scaled_agent, "monotonic_s", lambda: now_s[0])
    one, keeper, notes = agent(command=("false",))
    wanted(one, 1)
    for failures, wait_s in ((1, 0.0), (2, 0.5), (3, 1.0)):
        steps_until(keeper, lambda so_many=failures: len(notes.seen) == so_many)
        if wait_s:
            now_s[0] += wait_s - 0.01
            for _ in range(3):
                keeper.step()
            assert (len(notes.seen), keeper._members) == (failures, [])
        now_s[0] += 0.02

    assert names(one) == []


def test_one_that_never_answers_is_ended(agent: Make, tmp_path: Path) -> None:
    one, keeper, notes = agent(command=("sleep", "600"), start_timeout_s=0.3)
    wanted(one, 1)
    keeper.step()
    (silent,) = processes(tmp_path)
    steps_until(keeper, lambda: notes.seen, 5)

    assert not silent.is_running()


def test_while_the_database_is_away_everything_stays(agent: Make, tmp_path: Path) -> None:
    one, keeper, _ = agent()
    wanted(one, 1)
    steps_until(keeper, lambda: names(one))
    before = processes(tmp_path)

    class Away(SharedRoster):
        def wanted(self, pool: str) -> int | None:
            from app.errors import DatabaseUnavailable

            raise DatabaseUnavailable("away")

    roster, keeper._roster = keeper._roster, Away(one.database, one.wiring.endpoints)
    keeper.step()
    keeper._roster = roster

    assert processes(tmp_path) == before


SETTINGS = {
    "GIVEWAY_SCALING": json.dumps(
        [
            {
                "pool": "main",
                "minimum": 2,
                "maximum": 2,
                "command": SERVE,
                "kind": "simulated",
                "models": ["fake-chat", "fake-embed"],
            }
        ]
    ),
    "GIVEWAY_POOLS": json.dumps([{"name": "main", "total": 32, "batch_max": 31}]),
}


Run = Callable[[list[str], dict[str, str]], "subprocess.Popen[bytes]"]


@pytest.fixture
def ended_after() -> Iterator[Run]:
    """Starts commands; whatever a test leaves running is killed."""
    made: list[subprocess.Popen[bytes]] = []

    def run(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        return made[-1]

    yield run
    for one in made:
        one.kill()
        one.wait(5)


def test_a_killed_agent_leaves_no_orphan_and_the_next_one_clears_up(
    rig: MakeRig, migrated_url: str, tmp_path: Path, ended_after: Run
) -> None:
    one = rig()
    environment = {**os.environ, **SETTINGS, "GIVEWAY_DATABASE__URL": migrated_url}
    command = [sys.executable, "-m", "app.cli.main", "scaling", "agent", "--data", str(tmp_path)]

    first = ended_after(command, environment)
    until(lambda: len(names(one)) == 2, 40, "two endpoints")
    servers = processes(tmp_path / "scaling")
    assert "GIVEWAY_DATABASE__URL" not in servers[0].environ()
    first.send_signal(signal.SIGKILL)
    first.wait(5)
    until(lambda: not any(p.is_running() for p in servers), 5, "the end of its servers")
    assert len(names(one)) == 2  # nobody has taken them out yet

    second = ended_after(command, environment)
    until(
        lambda: len(names(one)) == len(set(processes(tmp_path / "scaling")) - set(servers)) == 2,
        40,
        "two new ones",
    )
    others = processes(tmp_path / "scaling")
    second.send_signal(signal.SIGTERM)
    assert second.wait(120) == 0
    assert names(one) == []
    assert not any(p.is_running() for p in others)


def test_a_server_of_others_is_in_the_pool_for_as_long_as_join_runs(
    rig: MakeRig, migrated_url: str, tmp_path: Path, ended_after: Run
) -> None:
    one = rig()
    environment = {**os.environ, **SETTINGS, "GIVEWAY_DATABASE__URL": migrated_url}
    command = [sys.executable, "-m", "app.cli.main", "scaling", "join", one.endpoint.url]
    command += ["--pool", "main", "--name", "pod-1", "--left", str(tmp_path / "left")]
    joined = ended_after(command, environment)
    name = scaled_name("main", "pod-1")
    until(lambda: names(one) == [name], 30, "its joining")
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, lease_until) VALUES (gen_random_uuid(), 'main', 'chat',"
        " 'fake-chat', :name, 'running', now(), now(), now() + interval '1 min')",
        name=name,
    )
    joined.send_signal(signal.SIGTERM)
    until(
        lambda: one.rows("SELECT draining FROM endpoints WHERE name = :n", n=name) == [(True,)],
        5,
        "the drain",
    )
    assert joined.poll() is None
    assert not (tmp_path / "left").exists()
    one.execute("UPDATE interactive_requests SET state = 'done', finished_at = now()")

    assert joined.wait(60) == 0
    assert (names(one), (tmp_path / "left").exists()) == ([], True)


def test_a_scale_in_fails_no_request(agent: Make) -> None:
    one, keeper, _ = agent()
    assert failures_of_a_scale_in(one, keeper) == 0


def test_mutant_that_ends_without_a_drain_fails_requests(
    agent: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, keeper, _ = agent()
    monkeypatch.setattr(SharedRoster, "leave", lambda *_: None)
    endpoints = one.wiring.endpoints
    monkeypatch.setattr(
        SharedRoster, "remove", lambda self, name, now=False: endpoints.remove(name, now=True)
    )

    assert failures_of_a_scale_in(one, keeper) > 0


def failures_of_a_scale_in(one: Rig, keeper: Agent) -> int:
    """Batch calls and their errors while two endpoints come and go, from real calls to them."""
    one.execute("DELETE FROM endpoints WHERE name = 'sim'")
    wanted(one, 2)
    steps_until(keeper, lambda: len(names(one)) == 2)
    one.execute("UPDATE endpoints SET draining = true WHERE added IS NULL")
    job = one.submit([f"text number {n} of many words to read" for n in range(3000)]).job
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            one.wiring.execution.run(job.id)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: one.one("SELECT count(*) FROM batch_calls") > 20, 20, "calls")
        wanted(one, 1)
        steps_until(keeper, lambda: len(names(one)) == 1)
        before = one.one("SELECT count(*) FROM batch_calls")
        until(lambda: one.one("SELECT count(*) FROM batch_calls") > before + 5, 20, "more calls")
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    return int(one.one("SELECT count(*) FROM batch_calls WHERE error_code IS NOT NULL"))
