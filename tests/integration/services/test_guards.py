"""What keeps slow work single holds no transaction: nobody waits for the guard itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from app.domain.indexing import IndexRules
from app.domain.results import Item
from app.errors import Conflict, DatabaseUnavailable
from app.services import collections, made
from app.services.indexing import Indexing
from app.storage import evaluation_store, ledger_store, paging, result_store, vector_store
from app.storage.database import Database
from app.storage.vector_index import INDEXING
from tests.processes import until
from tests.rig import MakeRig, Rig

PREPARED_BY = 6
"""A statement that was run so often is prepared by any driver's rule."""
PATIENCE_S = 30.0

VECTORS = """
    INSERT INTO collections (name, model, dimension) VALUES ('docs', 'fake-embed', 3);
    INSERT INTO embeddings (collection_id, key, piece, content_hash, vector, job_id, seq)
    SELECT c.id, 'k' || n, 0, '\\x00', CAST(ARRAY[n, 1, n % 7] AS vector), 1, n
    FROM collections c, generate_series(1, 500) n
"""
IDLE = """
    SELECT application_name, query FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%'
"""
BLOCKED = """
    SELECT a.pid, b.pid AS by, b.state FROM pg_stat_activity a
    JOIN pg_stat_activity b ON b.pid = ANY(pg_blocking_pids(a.pid))
    WHERE a.datname = current_database() AND b.state LIKE 'idle in transaction%'
"""


def test_an_index_is_built_by_a_guard_whose_statements_are_prepared(rig: MakeRig) -> None:
    one = rig()
    indexing = Indexing(one.database, IndexRules(worth=100))
    for _ in range(PREPARED_BY):
        assert indexing.sweep() == {}
    one.execute(VECTORS)

    assert _beside(one, indexing.sweep) == {"docs": "build"}
    assert one.wiring.collections.stats("docs")[0].indexed


def test_a_guard_is_held_by_one_session_and_free_after_it_however_it_ended(rig: MakeRig) -> None:
    database = rig().database
    with database.guarded("work") as first, database.guarded("work") as second:
        assert (first is not None, second) == (True, None)
        with database.guarded("other work") as other:
            assert other is not None
    with suppress(KeyError), database.guarded("work"):
        raise KeyError
    with pytest.raises(DatabaseUnavailable):
        _killed_at_work(database)
    with database.guarded("work") as again:
        assert again is not None
        assert again.execute(text("SHOW statement_timeout")).scalar_one() == "0"
    with database.transaction() as tx:
        assert tx.execute(text("SHOW statement_timeout")).scalar_one() == "30s"


def _killed_at_work(database: Database) -> None:
    with database.guarded("work") as own:
        assert own is not None
        own.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


SLOW_READERS: dict[str, Callable[[Rig, int], Iterator[Any]]] = {
    "results of a job": lambda one, job_id: made.results(one.database, job_id),
    "vectors of a collection": lambda one, _: made.vectors(one.database, "docs"),
    "answers of a run": lambda one, job_id: made.evaluated(one.database, job_id),
    "items of a ledger": lambda one, job_id: made.given(one.database, job_id),
    "items of a collection": lambda one, _: made.items_of(one.database, 1),
}


@pytest.mark.parametrize("reader", SLOW_READERS)
def test_what_is_read_slowly_is_read_whole_and_leaves_no_transaction_open(
    rig: MakeRig, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in (result_store, vector_store, evaluation_store, ledger_store, paging):
        monkeypatch.setattr(store, "ROWS", 2)
    one = rig()
    job = one.work(one.submit([f"text {n}" for n in range(5)]).job.id)
    rows = SLOW_READERS[reader](one, job.id)

    seen = 0
    for _ in rows:
        seen += 1
        assert one.rows(IDLE) == []
    assert seen == 5


def test_what_is_compared_with_a_slow_source_holds_no_transaction(rig: MakeRig) -> None:
    one = rig()
    one.work(one.submit([f"text {n}" for n in range(5)]).job.id)
    idle: list[Any] = []

    def slowly() -> Iterator[Item]:
        for item in list(made.given(one.database, 1)):
            idle.extend(one.rows(IDLE))
            yield item

    found = one.wiring.collections.verify("docs", slowly())
    assert (found.sound, found.compared, idle) == (True, 5, [])
    assert one.wiring.collections.verify("docs", slowly()).sound


def test_an_index_that_is_asked_for_waits_for_one_that_is_being_built(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig()
    one.execute(VECTORS)
    monkeypatch.setattr(collections, "_INDEXING_S", 0.0)
    with one.database.guarded(INDEXING), pytest.raises(Conflict, match="is being built"):
        one.wiring.collections.build_index("docs")
    one.wiring.collections.build_index("docs")
    assert one.wiring.collections.stats("docs")[0].indexed


def _beside(one: Rig, work: Any) -> Any:
    """What `work` gives, while it is seen that it waits for nobody and leaves nobody idle."""
    done: list[Any] = []
    worker = threading.Thread(target=lambda: done.append(work()), daemon=True)
    worker.start()
    try:
        until(lambda: done or one.rows(BLOCKED), PATIENCE_S, "its end")
        assert one.rows(BLOCKED) == []
    finally:
        one.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        worker.join(PATIENCE_S)
    (found,) = done
    return found
