"""Schedules on real tables, by a clock that the test moves."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest

from app.domain.schedules import LAUNCHES, Missed, Overlap, Rule, RunState, ScheduleState
from app.errors import Conflict, DatabaseUnavailable, NotFound, UsageError
from app.services import schedule_runs as module
from app.services.schedule_runs import ScheduleRuns
from app.storage.job_store import JobStore
from tests.rig import MakeRig, Rig

BERLIN = "Europe/Berlin"


class Clocked:
    """A rig with schedules, whose ticks come at the times that the test says."""

    def __init__(self, rig: Rig, file: Path) -> None:
        self.rig = rig
        self.file = file
        self.scheduling = rig.wiring.scheduling
        self.launching = rig.wiring.schedule_runs

    def template(self, **more: Any) -> dict[str, Any]:
        return {
            "kind": "embed",
            "params": {"model": "fake-embed", "collection": "docs"},
            "source": {"uri": str(self.file), "id_field": "id"},
            **more,
        }

    def add(self, name: str, cron: str, since: datetime, zone: str = BERLIN, **rule: Any) -> None:
        self.scheduling.add(name, Rule(cron, zone, **rule), self.template())
        self.rig.execute(
            "UPDATE schedules SET seen_until = :at WHERE name = :name", at=since, name=name
        )

    def ticks(self, since: datetime, until: datetime, every: timedelta) -> None:
        """Tick, launch what can be launched and finish its jobs, until that time."""
        now = since
        while now <= until:
            self.tick(now)
            now += every

    def tick(self, now: datetime, *, work: bool = True) -> None:
        self.scheduling.tick(now)
        while self.launching.launch(now) is not None:
            pass
        if work:
            for row in self.rig.rows("SELECT id FROM jobs WHERE state IN ('ready', 'running')"):
                self.rig.work(row.id)

    def runs(self, name: str) -> list[tuple[str, str]]:
        """(nominal time on the wall, state), oldest first."""
        zone = ZoneInfo(self.scheduling.named(name).rule.timezone)
        return [
            (run.nominal_at.astimezone(zone).isoformat(timespec="minutes"), run.state.value)
            for run in reversed(self.scheduling.history(name, 1000))
        ]

    def keys(self) -> list[str]:
        return [row.key for row in self.rig.rows("SELECT key FROM jobs ORDER BY id")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"d{n}", "text": f"text {n}"}) + "\n" for n in range(3))
    )
    return path


@pytest.fixture
def clocked(rig: MakeRig, file: Path) -> Clocked:
    return Clocked(rig(), file)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_nightly_schedule_over_two_clock_changes_and_three_days_of_silence(
    clocked: Clocked,
) -> None:
    """Ticks every 20 minutes from March to April and in October, and none for three days."""
    clocked.add("nightly", "30 2 * * *", at("2027-03-26T12:00+01:00"))
    clocked.ticks(at("2027-03-26T12:00+01:00"), at("2027-03-29T12:00+02:00"), timedelta(minutes=20))
    clocked.rig.execute("UPDATE schedules SET seen_until = :at", at=at("2027-10-29T12:00+02:00"))
    clocked.ticks(at("2027-10-29T12:00+02:00"), at("2027-11-01T12:00+01:00"), timedelta(minutes=20))
    # Nobody ticks until the fourth at ten.
    clocked.tick(at("2027-11-04T10:00+01:00"))
    clocked.tick(at("2027-11-05T02:30+01:00"))

    assert clocked.runs("nightly") == [
        ("2027-03-27T02:30+01:00", "launched"),
        ("2027-03-28T03:00+02:00", "launched"),
        ("2027-03-29T02:30+02:00", "launched"),
        ("2027-10-30T02:30+02:00", "launched"),
        ("2027-10-31T02:30+02:00", "launched"),
        ("2027-11-01T02:30+01:00", "launched"),
        ("2027-11-02T02:30+01:00", "skipped"),
        ("2027-11-03T02:30+01:00", "skipped"),
        ("2027-11-04T02:30+01:00", "launched"),
        ("2027-11-05T02:30+01:00", "launched"),
    ]
    launched = [when for when, state in clocked.runs("nightly") if state == "launched"]
    assert clocked.keys() == [f"nightly@{when}" for when in launched]
    assert {row.state for row in clocked.rig.rows("SELECT state FROM jobs")} == {"completed"}


@pytest.mark.parametrize(
    ("missed", "launched"), [(Missed.SKIP, 0), (Missed.LATEST, 1), (Missed.ALL, 3)]
)
def test_what_three_missed_days_become(clocked: Clocked, missed: Missed, launched: int) -> None:
    since = at("2027-06-01T12:00+02:00")
    rule = {"missed": missed, "missed_within_s": 5 * 86400.0, "overlap": Overlap.QUEUE}
    clocked.add("n", "0 2 * * *", since, **rule)
    for _ in range(4):
        clocked.tick(since + timedelta(days=3))

    states = [state for _, state in clocked.runs("n")]
    assert (states.count("launched"), len(states)) == (launched, 3)


def test_ticks_and_launchers_of_many_control_workers_launch_once(rig: MakeRig, file: Path) -> None:
    workers = [Clocked(rig(), file) for _ in range(4)]
    since = at("2027-06-01T12:00+02:00")
    workers[0].add("m", "* * * * *", since, missed=Missed.ALL, overlap=Overlap.QUEUE)
    now = since + timedelta(minutes=5)

    def control(one: Clocked) -> None:
        for _ in range(6):
            one.tick(now)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(control, workers))
    control(workers[0])

    assert workers[0].runs("m") == [(f"2027-06-01T12:0{n}+02:00", "launched") for n in range(1, 6)]
    assert workers[0].keys() == [f"m@2027-06-01T12:0{n}+02:00" for n in range(1, 6)]


class Killed(BaseException):
    """The process ended here."""


def launch_and_die_before_it_is_written_down(clocked: Clocked, now: datetime) -> None:
    """The job is inserted and whole; the launcher is killed before it says so or rings."""
    clocked.scheduling.tick(now)
    with patch.object(ScheduleRuns, "_settled", side_effect=Killed), pytest.raises(Killed):
        clocked.launching.launch(now)


@pytest.mark.parametrize("content", ["same", "changed"])
def test_a_launcher_killed_between_insert_and_ring_leaves_one_job(
    clocked: Clocked, content: str
) -> None:
    now = at("2027-06-02T02:00+02:00")
    clocked.add("n", "0 2 * * *", now - timedelta(hours=1))
    launch_and_die_before_it_is_written_down(clocked, now)
    if content == "changed":
        clocked.file.write_text(json.dumps({"id": "other", "text": "another text"}))

    assert clocked.launching.launch(now) is None, "somebody else's lease is taken"
    later = now + timedelta(minutes=2)
    done = clocked.launching.launch(later)

    assert done is not None
    assert (done.state, done.job and done.job.total) == (RunState.LAUNCHED, 3)
    assert clocked.keys() == ["n@2027-06-02T02:00+02:00"]
    assert clocked.launching.launch(later) is None


def test_mutant_a_key_that_is_not_the_runs_own_makes_two_jobs(clocked: Clocked) -> None:
    """What the key is for: without it, the same crash leaves two jobs."""
    now = at("2027-06-02T02:00+02:00")
    clocked.add("n", "0 2 * * *", now - timedelta(hours=1))
    numbers = iter(range(10))
    with patch.object(module, "key_of", lambda *_: f"n-{next(numbers)}"):
        launch_and_die_before_it_is_written_down(clocked, now)
        clocked.launching.launch(now + timedelta(minutes=2))

    assert len(clocked.keys()) == 2


def test_a_launcher_killed_while_it_loads_is_made_good_from_the_source_as_it_is_then(
    clocked: Clocked,
) -> None:
    now = at("2027-06-02T02:00+02:00")
    clocked.add("n", "0 2 * * *", now - timedelta(hours=1))
    clocked.scheduling.tick(now)
    with (
        patch.object(JobStore, "loaded", side_effect=Killed),
        patch.object(JobStore, "forget_loading"),
        pytest.raises(Killed),
    ):
        clocked.launching.launch(now)
    assert clocked.rig.one("SELECT state FROM jobs") == "loading"
    clocked.file.write_text(json.dumps({"id": "other", "text": "another text"}))

    done = clocked.launching.launch(now + timedelta(minutes=2))

    assert done is not None
    assert (done.job and done.job.total, len(clocked.keys())) == (1, 1)


def test_a_source_that_is_not_there_yet_is_tried_again_and_then_told(clocked: Clocked) -> None:
    now = at("2027-06-02T02:00+02:00")
    clocked.add("n", "0 2 * * *", now - timedelta(hours=1))
    hidden = clocked.file.rename(clocked.file.with_suffix(".later"))
    clocked.tick(now)
    assert clocked.runs("n") == [("2027-06-02T02:00+02:00", "planned")]
    assert clocked.launching.launch(now) is None, "it waits before it tries again"

    hidden.rename(clocked.file)
    clocked.tick(now + timedelta(minutes=1))
    assert clocked.runs("n") == [("2027-06-02T02:00+02:00", "launched")]

    clocked.file.unlink()
    tomorrow = now + timedelta(days=1)
    for n in range(LAUNCHES.max_attempts + 2):
        clocked.tick(tomorrow + timedelta(minutes=20 * n))
    last = clocked.scheduling.history("n", 1)[0]
    assert (last.state, last.attempt) == (RunState.FAILED, LAUNCHES.max_attempts)
    assert str(clocked.file) in (last.reason or "")


def test_while_the_database_is_away_no_attempt_is_spent(clocked: Clocked) -> None:
    now = at("2027-06-02T02:00+02:00")
    clocked.add("n", "0 2 * * *", now - timedelta(hours=1))
    clocked.scheduling.tick(now)
    away = DatabaseUnavailable("away")
    with (
        patch.object(clocked.rig.wiring.launching, "launch", side_effect=away),
        pytest.raises(DatabaseUnavailable),
    ):
        clocked.launching.launch(now)

    clocked.tick(now + timedelta(minutes=2))
    assert clocked.runs("n") == [("2027-06-02T02:00+02:00", "launched")]


def overlapping(clocked: Clocked, policy: Overlap) -> None:
    """Three runs an hour apart; no job is worked on."""
    since = at("2027-06-02T00:00+02:00")
    clocked.add("h", "0 * * * *", since, overlap=policy)
    for hour in (1, 2, 3):
        clocked.tick(since + timedelta(hours=hour), work=False)


def jobs(clocked: Clocked) -> list[str]:
    return [row.state for row in clocked.rig.rows("SELECT state FROM jobs ORDER BY id")]


def test_overlap_skip_passes_by_while_a_job_is_open(clocked: Clocked) -> None:
    overlapping(clocked, Overlap.SKIP)
    assert [state for _, state in clocked.runs("h")] == ["launched", "skipped", "skipped"]
    reason = clocked.scheduling.history("h", 1)[0].reason
    assert reason == "overlap: job h@2027-06-02T01:00+02:00 is not over"


def test_overlap_queue_launches_one_after_the_other(clocked: Clocked) -> None:
    overlapping(clocked, Overlap.QUEUE)
    assert [state for _, state in clocked.runs("h")] == ["launched", "planned", "planned"]
    for expected in (2, 3):
        clocked.rig.execute("UPDATE jobs SET state = 'completed'")
        clocked.tick(at("2027-06-02T03:10+02:00"), work=False)
        assert [state for _, state in clocked.runs("h")].count("launched") == expected
    assert clocked.keys() == [f"h@2027-06-02T0{n}:00+02:00" for n in (1, 2, 3)]


def test_overlap_cancel_ends_the_older_job(clocked: Clocked) -> None:
    overlapping(clocked, Overlap.CANCEL)
    assert [state for _, state in clocked.runs("h")] == ["launched"] * 3
    assert jobs(clocked) == ["cancelled", "cancelled", "ready"]


def test_jitter_moves_the_launch_and_not_the_nominal_time(clocked: Clocked) -> None:
    now = at("2027-06-02T02:00+02:00")
    clocked.add("n", "0 2 * * *", now - timedelta(hours=1), jitter_s=600.0)
    clocked.scheduling.tick(now)
    run = clocked.scheduling.history("n", 1)[0]
    late_s = (run.due_at - run.nominal_at).total_seconds()

    assert 0 < late_s < 600
    assert clocked.launching.launch(run.due_at - timedelta(seconds=1)) is None
    assert clocked.launching.launch(run.due_at) is not None
    assert clocked.keys() == ["n@2027-06-02T02:00+02:00"]


def test_done_by_is_the_jobs_deadline_and_the_next_one_for_a_late_launch(
    clocked: Clocked,
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    clocked.add("n", "* * * * *", now - timedelta(minutes=2), done_by="06:00")
    clocked.tick(now)

    until = clocked.rig.one("SELECT deadline_at FROM jobs")
    local = until.astimezone(ZoneInfo(BERLIN))
    assert (local.hour, local.minute) == (6, 0)
    assert now < until <= now + timedelta(days=1, hours=1)


def test_a_paused_schedule_lets_its_times_pass(clocked: Clocked) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=5)
    clocked.add("n", "* * * * *", long_ago, missed=Missed.ALL)
    clocked.scheduling.set_state("n", ScheduleState.PAUSED)
    clocked.rig.execute("UPDATE schedules SET seen_until = :at", at=long_ago)
    clocked.tick(datetime.now(UTC))
    assert clocked.runs("n") == []

    clocked.scheduling.set_state("n", ScheduleState.ACTIVE)
    clocked.tick(datetime.now(UTC))
    assert len(clocked.runs("n")) <= 1


def hours_later(hours: int) -> Any:
    then = datetime.now(UTC) + timedelta(hours=hours)
    return patch.object(module, "database_now", lambda _: then)


def test_a_run_by_hand_is_launched_at_once_and_obeys_the_overlap_policy(clocked: Clocked) -> None:
    clocked.add("n", "0 2 1 1 *", datetime.now(UTC))
    first = clocked.launching.run("n")
    assert first.state is RunState.LAUNCHED
    with hours_later(1):
        second = clocked.launching.run("n")
    assert (second.state, len(clocked.keys())) == (RunState.SKIPPED, 1)

    clocked.rig.work(first.job.id if first.job else 0)
    clocked.file.unlink()
    with hours_later(2):
        third = clocked.launching.run("n")
    assert third.state is RunState.FAILED, "who asks by hand is told at once"


def test_names_are_unique_and_unknown_ones_are_told(clocked: Clocked) -> None:
    clocked.add("n", "0 2 * * *", datetime.now(UTC))
    with pytest.raises(Conflict, match="there already"):
        clocked.scheduling.add("n", Rule("0 3 * * *"), clocked.template())
    with pytest.raises(UsageError, match="kind"):
        clocked.scheduling.add("m", Rule("0 3 * * *"), {"params": {}})
    clocked.scheduling.remove("n")
    with pytest.raises(NotFound):
        clocked.scheduling.history("n", 1)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"source": {"uri": "a.csv", "text_field": None}, "params": {"modle": "m"}}, "modle"),
        ({"source": {"uri": "a.csv", "encoding": "nope"}}, "no encoding 'nope'"),
        ({"source": {"uri": "postgresql://h/d", "query": "'\0'", "id_field": "i"}}, "query"),
        ({"params": {"model": "m", "collection": "c", "prefix": "\ud83d"}}, "prefix holds what"),
        ({"after": ["\0"]}, "after holds what cannot be kept"),
    ],
)
def test_what_can_be_told_of_a_template_is_told_when_it_is_added(
    clocked: Clocked, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        clocked.scheduling.add("n", Rule("0 2 * * *"), clocked.template(**more))
    assert clocked.scheduling.listed() == []


def test_an_idle_tick_over_many_schedules_is_cheap_and_writes_nothing(clocked: Clocked) -> None:
    now = at("2027-06-02T00:00+02:00")
    clocked.add("n", "0 2 * * *", now)
    clocked.rig.execute(
        "INSERT INTO schedules (name, cron, timezone, state, missed, missed_within_s, overlap,"
        " template, seen_until) SELECT 'n' || g, cron, timezone, state, missed, missed_within_s,"
        " overlap, template, seen_until FROM schedules, generate_series(1, 200) g"
    )
    before = clocked.rig.one("SELECT pg_current_wal_insert_lsn() - '0/0'")
    for _ in range(3):
        assert clocked.scheduling.tick(now + timedelta(minutes=1)) == 0
    assert clocked.rig.one("SELECT count(*) FROM schedule_runs") == 0
    assert clocked.rig.one("SELECT pg_current_wal_insert_lsn() - '0/0'") - before < 8192
