"""The event log on a real Postgres: nothing blocks, nothing raises, what is lost is counted."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.domain.events import JobFinished, LeaseRescued, LimitMoved, MicroBatchDone
from app.local.bare import embedded_postgres_at
from app.metrics.recorder import Recorder
from app.storage import schema
from app.storage.database import Database
from tests.waiting import until


def rows(database: Database) -> list[tuple[object, ...]]:
    with database.transaction() as tx:
        return [
            tuple(row)
            for row in tx.execute(
                text("SELECT type, pool, endpoint, job_id, facts FROM events ORDER BY at, id")
            )
        ]


def test_events_are_rows_soon_after_and_at_their_own_time(migrated_url: str) -> None:
    database = Database(migrated_url)
    gate = threading.Event()

    def later() -> Database:
        gate.wait(60)
        return database

    recorder = Recorder(later)
    before = datetime.now(UTC)
    recorder.saw(LimitMoved("main", 3, 2, 0.5, "raise"))
    recorder.saw(MicroBatchDone(1, "embed", 1, 0, 1, 1))
    recorder.saw(LeaseRescued(7, 2, "split"))
    until(lambda: datetime.now(UTC) > before + timedelta(seconds=1), 5, "a second")
    written_after = datetime.now(UTC)
    gate.set()
    until(lambda: len(rows(database)) == 2, 5, "the rows")
    recorder.close(60.0)
    with database.transaction() as tx:
        at = tx.execute(text("SELECT min(at) FROM events")).scalar_one()

    # Which of the two came first is a matter of microseconds.
    assert sorted(rows(database), reverse=True) == [
        (
            "limit_moved",
            "main",
            None,
            None,
            {"limit": 3, "before": 2, "pressure": 0.5, "reason": "raise"},
        ),
        ("lease_rescued", None, None, 7, {"no": 2, "action": "split"}),
    ]
    assert abs(at - before) < (written_after - before) / 2
    database.close()


def test_closing_writes_what_is_held(migrated_url: str) -> None:
    database = Database(migrated_url)
    recorder = Recorder(lambda: database)
    for number in range(1200):
        recorder.saw(JobFinished(number, "embed", "completed", 1, 0))
    recorder.close(60.0)

    assert len(rows(database)) == 1200
    recorder.saw(JobFinished(1200, "embed", "completed", 1, 0))
    recorder.close(60.0)
    assert len(rows(database)) == 1201
    database.close()


def test_a_process_that_ends_leaves_no_event_behind(migrated_url: str) -> None:
    program = (
        "from app.domain.events import JobReady; from app.metrics.recorder import Recorder;"
        "from app.storage.database import Database; import sys;"
        "d = Database(sys.argv[1]); Recorder(lambda: d).saw(JobReady(1, 'embed', 3))"
    )
    subprocess.run([sys.executable, "-c", program, migrated_url], check=True, timeout=120)
    database = Database(migrated_url)

    assert [row[0] for row in rows(database)] == ["job_ready"]
    database.close()


def test_while_postgres_is_away_events_wait_and_those_past_the_bound_are_counted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with embedded_postgres_at(folder) as url:
        database = Database(url)
        schema.upgrade(database)
        port = int(url.rpartition(":")[2].partition("/")[0])
        away = Database(url.replace(f":{port}/", ":1/"))
        there = [away]
        recorder = Recorder(lambda: there[0], most_held=50)
        with caplog.at_level(logging.WARNING):
            for number in range(80):
                recorder.saw(JobFinished(number, "embed", "completed", 1, 0))
            # Nobody has waited for the database: the first fifty are held while it is away.
            assert recorder.lost == 30
        there[0] = database
        until(lambda: len(rows(database)) == 50, 15, "the rows")
        recorder.close(60.0)

        assert recorder.lost == 30
        assert "has lost 1 events" in caplog.text
        away.close()
        database.close()


def test_an_event_that_cannot_be_written_does_not_stop_those_after_it(
    migrated_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(migrated_url)
    recorder = Recorder(lambda: database)
    recorder.saw(LeaseRescued(2**80, 1, "no such number in Postgres"))
    recorder.close(60.0)
    recorder.saw(LeaseRescued(1, 1, "split"))
    recorder.close(60.0)

    assert [row[3] for row in rows(database)] == [1]
    assert recorder.lost == 1
    database.close()
