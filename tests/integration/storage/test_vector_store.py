"""Two jobs that write the same vectors at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from app.errors import DatabaseUnavailable
from app.storage import vector_store
from app.storage.vector_store import Embedding, VectorStore
from tests.rig import MakeRig, Rig

# Each row that is replaced stays locked for a moment before the next one is asked for.
SLOWLY = """
    CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$
"""
TRIGGER = """
    CREATE TRIGGER slowly BEFORE UPDATE ON embeddings FOR EACH ROW EXECUTE FUNCTION slowly()
"""


def write_reversed(one: Rig) -> list[str]:
    """Two transactions replace k0 and k1, one in the other order; how each ended."""
    job_id = one.work(one.submit(["a first text", "a second text"]).job.id).id
    collection, dimension = one.rows("SELECT id, dimension FROM collections")[0]
    one.execute(SLOWLY)
    one.execute(TRIGGER)
    rows = [Embedding(f"k{n}", bytes(16), n + 1) for n in range(2)]
    vectors = np.eye(2, dimension, dtype=np.float32)

    def write(order: list[int]) -> str:
        try:
            with one.database.transaction() as tx:
                VectorStore(tx).write(collection, job_id, [rows[n] for n in order], vectors[order])
        except (DatabaseUnavailable, OperationalError) as error:
            return "deadlock" if "deadlock detected" in str(error) else str(error)
        return "written"

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(write, ([0, 1], [1, 0])))


def test_two_jobs_over_the_same_rows_both_end(rig: MakeRig) -> None:
    assert write_reversed(rig()) == ["written", "written"]


def test_mutant_that_does_not_sort_deadlocks(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_store, "sorted", lambda rows, key: list(rows), raising=False)
    assert sorted(write_reversed(rig())) == ["deadlock", "written"]
