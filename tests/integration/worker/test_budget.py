"""Eight worker processes on one budget of a real minute."""

from __future__ import annotations

import json
import os
import time

import pytest

from app.domain.inference import rough_tokens
from tests.processes import Processes
from tests.rig import MakeRig
from tests.waiting import until

BUDGET = 1000


@pytest.mark.slow
@pytest.mark.skipif(
    "TEST_MINUTE" not in os.environ,
    reason="takes a real minute and a half: TEST_MINUTE=1; test_rates has it in two seconds",
)
def test_eight_workers_on_a_thousand_tokens_a_minute_never_pass_it_in_any_60_s(
    processes: Processes, rig: MakeRig
) -> None:
    endpoint = {
        **json.loads(processes.environment["GIVEWAY_ENDPOINTS"])[0],
        "tokens_per_minute": BUDGET,
    }
    processes.environment |= {
        "GIVEWAY_ENDPOINTS": json.dumps([endpoint]),
        "GIVEWAY_BATCH__CHUNK_ITEMS": "4",
        "GIVEWAY_BATCH__MICRO_BATCH_ITEMS": "4",
    }
    one = rig(endpoints=[endpoint], batch={"chunk_items": 4, "micro_batch_items": 4})
    one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    workers = [
        processes.celery(
            *("worker", "-Q", "batch", "-n", f"batch{number}@test", "-P", "threads", "-c", "1"),
            *("--without-mingle", "--without-gossip", "--loglevel", "INFO"),
            name=f"batch{number}",
        )
        for number in range(8)
    ]
    for worker in workers:
        worker.ready()
    texts = [f"document number {n:03d} speaks of subject {n % 7} and of others" for n in range(120)]
    job = one.submit(texts).job
    wanted = sum(map(rough_tokens, texts))
    assert wanted > 1.5 * BUDGET

    def arrived() -> list[tuple[float, int]]:
        timings = one.endpoint.ledger()["timings"]
        return sorted((t["arrived_s"], t["prompt_tokens"]) for t in timings)

    def rung_until_over() -> bool:
        one.wiring.ringing.ring("main")
        time.sleep(0.45)
        return sum(n for _, n in arrived()) > 1.5 * BUDGET

    until(rung_until_over, 90, "the second minute's budget")
    seen = arrived()
    worst = max(sum(n for at, n in seen if since <= at < since + 60) for since, _ in seen)
    assert 0.7 * BUDGET <= worst <= BUDGET
    names = {row[0] for row in one.rows("SELECT DISTINCT split_part(worker, '#', 1) FROM chunks")}
    assert len(names) > 4
    assert one.rows("SELECT max(attempt), max(crashes) FROM chunks") == [(0, 0)]
    assert one.job(job.id).state in ("running", "completed")
