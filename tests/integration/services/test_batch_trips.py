"""Round trips to the database that batch work costs, counted on its way there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig import MakeRig, Rig
from tests.trips import Trips, trips

MOST_A_MICRO_BATCH = 3
MOST_A_CHUNK = 25
"""Beside its micro-batches: claim, read, first look, end."""


@pytest.fixture
def counted(migrated_url: str, rig: MakeRig) -> Iterator[tuple[Rig, Trips]]:
    """A rig whose way to the database is counted; its connection has prepared its statements."""
    with trips(migrated_url) as relay:
        batch = {"chunk_items": 100, "micro_batch_items": 10, "retry_base_s": 0.05}
        one = rig(
            database={"url": relay.url, "connections": 30},
            # No heartbeat of its own comes between: that costs one trip in five seconds.
            batch={**batch, "heartbeat_s": 20.0, "lease_s": 60.0},
        )
        job_id = one.submit([f"first {n}" for n in range(100)], key="before").job.id
        assert one.wiring.execution.run(job_id).done == 100
        yield one, relay
        one.close()


def cost(one: Rig, relay: Trips, micro_batches: int) -> int:
    """Round trips of a chunk of so many micro-batches."""
    texts = [f"{micro_batches}: {n}" for n in range(10 * micro_batches)]
    job_id = one.submit(texts, key=f"of {micro_batches}").job.id
    before = relay.count
    report = one.wiring.execution.run(job_id)
    assert (report.done, report.ended) == (len(texts), "finished")
    return relay.count - before


def test_a_micro_batch_and_a_chunk_cost_few_round_trips(counted: tuple[Rig, Trips]) -> None:
    short, long = cost(*counted, 2), cost(*counted, 10)
    a_micro_batch = (long - short) / 8
    assert a_micro_batch <= MOST_A_MICRO_BATCH
    assert short - 2 * a_micro_batch <= MOST_A_CHUNK
