"""The hot statements use the indexes made for them, and heartbeats stay HOT."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.storage import gauge_store, lease_store, limit_store, rescue_store, turn_store
from app.storage.chunk_store import ChunkStore
from app.storage.database import Database
from app.storage.lease_store import LeaseStore

LEASED = 40


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    """Two million items' worth of chunks, a few leased."""
    database = Database(migrated_url)
    with database.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO jobs (kind, name, key, request_hash, params, state, pool, model,"
                " total) SELECT 'embed', 'j', 'j' || n, '', '{}', 'running', 'main', 'm', 1000000"
                " FROM generate_series(1, 2) n"
            )
        )
        for job_id in (1, 2):
            ChunkStore(tx).cut(job_id, "main", 10_000_000, 512)
        tx.execute(text("UPDATE chunks SET state = 'done' WHERE no < 15000"))
        tx.execute(
            text(
                "UPDATE chunks SET state = 'leased', leased_at = now(), fence = 1, endpoint = 'e',"
                " lease_until = now() + interval '1 hour' WHERE no BETWEEN 15000 AND 15019"
            )
        )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE chunks"))
        connection.execute(text("ANALYZE jobs"))
    yield database
    database.close()


@pytest.mark.parametrize(
    ("statement", "values", "index"),
    [
        (
            lease_store._CLAIM,
            {"job_id": 1, "worker": "w", "endpoint": "e", "lease_s": 60.0, "fresh": True},
            "ix_chunks_ready",
        ),
        (limit_store.OCCUPANCY, {"pool": "main"}, "ix_chunks_leased"),
        (limit_store._RANK, {"pool": "main", "job_id": 1, "no": 15000}, "ix_chunks_leased"),
        (turn_store._CANDIDATES, {"pool": "main", "most": 8}, "ix_chunks_ready"),
        (turn_store._IN_FLIGHT, {"job_id": 1, "pool": "main"}, "ix_chunks_leased"),
        (rescue_store._LAPSED, {"worker": None, "most": 500}, "ix_chunks_leased"),
        (gauge_store._POOLS, {}, "ix_chunks_leased"),
        (gauge_store._STARVED, {}, "ix_chunks_leased"),
        (gauge_store._BACKLOG, {}, "ix_chunks_ready"),
    ],
    ids=[
        *("claim", "occupancy", "rank", "candidates", "in flight", "lapsed"),
        *("pools", "starved", "backlog"),
    ],
)
def test_a_hot_statement_reads_only_through_its_partial_index(
    database: Database, statement: object, values: dict[str, object], index: str
) -> None:
    with database.transaction() as tx:
        plan = "\n".join(
            row[0]
            for row in tx.execute(text(f"EXPLAIN (ANALYZE, BUFFERS) {statement.text}"), values)  # type: ignore[attr-defined]
        )
    assert index in plan
    assert "Seq Scan on chunks" not in plan


def test_what_jobs_have_used_is_read_from_the_last_minutes_only(migrated_url: str) -> None:
    database = Database(migrated_url)
    with database.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, items)"
                " SELECT n % 9, 'main', 'e', now() - make_interval(secs => n), 1, 64"
                " FROM generate_series(1, 50000) n"
            )
        )
        tx.execute(text("ANALYZE batch_calls"))
        given = {"pool": "main", "fades_s": 100.0}
        rows = tx.execute(text(f"EXPLAIN {turn_store._USED.text}"), given)
        plan = "\n".join(row[0] for row in rows)
    database.close()
    assert "ix_batch_calls_window" in plan
    assert "Seq Scan" not in plan


def test_heartbeats_are_hot_updates(database: Database) -> None:
    leases = [(job, no, 1) for job in (1, 2) for no in range(15_000, 15_020)]
    with database.transaction() as tx:
        assert len(LeaseStore(tx).extend(leases, 60)) == LEASED
    counted = text(
        "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)"
        " FROM CAST(CAST('chunks' AS regclass) AS oid) AS c"
    )
    updates = hot = 0
    for _ in range(10):
        with database.transaction() as tx:
            before = tx.execute(counted).one()
            LeaseStore(tx).extend(leases, 60)
            after = tx.execute(counted).one()
        updates, hot = updates + after[0] - before[0], hot + after[1] - before[1]
    assert updates == 10 * LEASED
    assert hot >= 0.9 * updates
