"""The reading's SQL says exactly what `samples.summarise` says, over rows."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from app.domain.throttle.kv import mean_held
from app.domain.throttle.samples import Sample, summarise
from app.domain.throttle.values import PolicySettings
from app.storage.database import Database
from app.storage.request_store import RequestStore
from app.storage.tables import batch_calls, interactive_requests

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
POLICY = PolicySettings(
    target_p95_ms=500, first_token_target_ms=300, per_token_target_ms=40, people_capacity=12
)


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


def a_row(chance: random.Random) -> dict[str, object]:
    """A request somewhere in its life, at whole milliseconds so that both sides see one number."""

    def ms(least: int, most: int) -> timedelta:
        return timedelta(milliseconds=chance.randint(least, most))

    life = chance.choice(["queued", "running", "streaming", "done", "failed", "dropped"])
    submitted = NOW - ms(0, 14_000)
    row: dict[str, object] = {
        "id": uuid.UUID(int=chance.getrandbits(128)),
        "pool": "main" if chance.random() < 0.9 else "other",
        "task_type": chance.choice(["chat", "chat", "embed"]),
        "model": "m",
        "state": "queued",
        "ahead": chance.randint(0, 20),
        "submitted_at": submitted,
        "started_at": None,
        "first_token_at": None,
        "finished_at": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "error_code": None,
        "lease_until": NOW + timedelta(hours=1),
    }
    if life == "queued":
        return row
    started = submitted + ms(0, 400)
    row |= {"state": "running", "started_at": started}
    if life == "running":
        return row
    if row["task_type"] == "chat" and life != "failed":
        row["first_token_at"] = started + ms(1, 900)
    if life == "streaming":
        return row
    finished = (row["first_token_at"] or started) + ms(1, 3000)  # type: ignore[operator]
    row |= {"state": life, "finished_at": finished}
    if life == "done":
        row["completion_tokens"] = chance.choice([None, 0, 1, 2, 8, 16, 17, 60, 400])
        row["prompt_tokens"] = chance.choice([None, 3, 300])
    else:
        row["error_code"] = chance.choice(["timeout", "bad_request", "overloaded", "connection"])
    return row


def as_sample(row: dict[str, object]) -> Sample:
    def ms(end: object, start: object) -> float | None:
        if end is None:
            return None
        return float((end - start) / timedelta(microseconds=1)) / 1000  # type: ignore[operator]

    age_ms = ms(row["finished_at"] or NOW, row["submitted_at"])
    assert age_ms is not None
    return Sample(
        age_ms=age_ms,
        first_token_ms=ms(row["first_token_at"], row["submitted_at"]),
        output_tokens=row["completion_tokens"],  # type: ignore[arg-type]
        prompt_tokens=row["prompt_tokens"],  # type: ignore[arg-type]
        finished=row["finished_at"] is not None,
        streams=row["task_type"] == "chat",
        error_code=row["error_code"],  # type: ignore[arg-type]
        queue_wait_ms=ms(row["started_at"], row["submitted_at"]),
        submitted_at=row["submitted_at"],  # type: ignore[arg-type]
        ahead=row["ahead"],  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_sql_agrees_with_its_definition(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    rows = [a_row(chance) for _ in range(chance.choice([0, 1, 5, 60, 400]))]
    rows = [r for r in rows if r["finished_at"] is None or r["finished_at"] <= NOW]
    policy = replace(
        POLICY,
        people_capacity=chance.choice([None, 6, 12]),
        answered_at=chance.choice([None, NOW - timedelta(seconds=4)]),
    )
    with database.transaction() as tx:
        if rows:
            tx.execute(insert(interactive_requests), rows)
        reading = RequestStore(tx).reading("main", policy, NOW)

    since = NOW - timedelta(seconds=policy.window_s)
    mine = [r for r in rows if r["pool"] == "main"]
    seen = [r for r in mine if r["finished_at"] is None or r["finished_at"] > since]
    arrivals = sum(since < r["submitted_at"] <= NOW for r in mine)  # type: ignore[operator]
    expected = summarise(
        [as_sample(row) for row in seen],
        policy,
        NOW,
        arrivals=arrivals,
        interactive_recent_peak=reading.interactive_recent_peak,
    )
    good = [r for r in seen if r["finished_at"] is not None and r["error_code"] is None]
    told = [r[name] for r in good for name in ("prompt_tokens", "completion_tokens")]
    tokens = sum(int(n or 0) for n in told)  # type: ignore[call-overload]
    spans = [r["finished_at"] - r["started_at"] for r in good]  # type: ignore[operator]
    place_s = sum(spans, timedelta()).total_seconds()
    load = tokens / place_s if good else None
    expected = replace(expected, people_tokens_per_place_s=load)
    for name in reading.__slots__:
        one, other = getattr(reading, name), getattr(expected, name)
        if isinstance(one, float) and isinstance(other, float):
            assert one == pytest.approx(other, rel=1e-9), name
        else:
            assert one == other, name
    assert reading.sound


def a_call(chance: random.Random) -> dict[str, object]:
    return {
        "job_id": 1,
        "pool": chance.choice(["main", "main", "other"]),
        "endpoint": "e",
        "ended_at": NOW - timedelta(seconds=chance.uniform(0, 14)),
        "seconds": chance.uniform(0.1, 30.0),
        "items": 1,
        "prompt_tokens": chance.randint(0, 2_000),
        "completion_tokens": chance.choice([0, 1, 150, 1_500]),
        "error_code": chance.choice([None, None, None, "timeout"]),
    }


@pytest.mark.parametrize("count", [0, 1, 200])
def test_what_batch_calls_hold_in_memory_agrees_with_its_definition(
    database: Database, count: int
) -> None:
    chance = random.Random(count)
    rows = [a_call(chance) for _ in range(count)]
    with database.transaction() as tx:
        if rows:
            tx.execute(insert(batch_calls), rows)
        reading = RequestStore(tx).reading("main", POLICY, NOW)

    since = NOW - timedelta(seconds=POLICY.window_s)
    expected = mean_held(
        (r["seconds"], r["prompt_tokens"], r["completion_tokens"])  # type: ignore[misc]
        for r in rows
        if r["pool"] == "main" and r["ended_at"] > since and r["error_code"] is None  # type: ignore[operator]
    )
    assert reading.batch_kv_tokens == (None if expected is None else pytest.approx(expected))
    assert count < 200 or expected


def test_the_recent_peak_remembers_a_burst_that_is_over(database: Database) -> None:
    rows = [
        {
            "id": uuid.uuid4(),
            "pool": "main",
            "task_type": "embed",
            "model": "m",
            "state": "done",
            "submitted_at": NOW - timedelta(milliseconds=900),
            "finished_at": NOW - timedelta(milliseconds=100 + n),
        }
        for n in range(9)
    ]
    with database.transaction() as tx:
        tx.execute(insert(interactive_requests), rows)
        reading = RequestStore(tx).reading("main", POLICY, NOW)
    assert (reading.interactive_in_flight, reading.interactive_recent_peak) == (0, 9)


def test_a_failure_never_reads_as_fast(database: Database) -> None:
    row = {
        "id": uuid.uuid4(),
        "pool": "main",
        "task_type": "chat",
        "model": "m",
        "state": "failed",
        "submitted_at": NOW - timedelta(milliseconds=20),
        "finished_at": NOW - timedelta(milliseconds=15),
        "error_code": "overloaded",
    }
    with database.transaction() as tx:
        tx.execute(insert(interactive_requests), [row])
        reading = RequestStore(tx).reading("main", POLICY, NOW)
    assert (reading.failed, reading.p50_ms, reading.misses) == (1, None, 1)
