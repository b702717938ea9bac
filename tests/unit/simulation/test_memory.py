"""Scarce KV memory bounds batch before people miss; where there is enough, nothing moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.simulation import measure
from app.simulation.server import ServerModel
from app.simulation.setup import Setup, Trace
from app.simulation.workloads import workload
from app.simulation.world import simulate


def run(name: str, kv_tokens: int, *, memory: bool, seconds: float = 660.0) -> tuple[Trace, float]:
    """A run on an engine with so much memory, and the share of people on target."""
    load = replace(workload(name), duration_s=seconds)
    trace = simulate(
        Setup(
            load,
            3,
            replace(load.settings, name="budget"),
            server=ServerModel(kv_tokens=kv_tokens),
            memory=memory,
        )
    )
    return trace, measure.on_target(measure.counted(trace, load))


def test_without_the_bound_of_memory_requests_are_thrown_out_and_people_miss() -> None:
    """The mutant is an endpoint that does not tell its size."""
    kept, on_target = run("long_batch", 40_000, memory=True)
    mutant, missed = run("long_batch", 40_000, memory=False)

    assert "memory" in kept.reasons
    assert "memory" not in mutant.reasons
    assert kept.preemptions < 0.5 * mutant.preemptions
    assert on_target > 0.97
    assert missed < 0.90
    assert kept.batch_tokens[-1] > 0.9 * mutant.batch_tokens[-1]


@pytest.mark.parametrize("name", ["step", "spikes"])
def test_where_memory_is_ample_not_a_single_limit_changes(name: str) -> None:
    told, untold = (run(name, 140_000, memory=memory, seconds=300.0)[0] for memory in (True, False))

    assert told.limit == untold.limit
    assert told.batch_tokens == untold.batch_tokens
