"""An evaluation run whose worker is killed half-way: no stored answer is asked for again."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.domain.fingerprint import fingerprint
from app.services.submission import JobRequest, Submitted
from tests.processes import Processes
from tests.rig import MakeRig, Rig
from tests.waiting import until

GSM8K = Path(__file__).parents[4] / "shared" / "data" / "gsm8k_test.jsonl"
MUTANTS = Path(__file__).parents[2] / "acceptance" / "mutants"
ITEMS, REPEATS, IN_FLIGHT = 24, 10, 8

pytestmark = pytest.mark.skipif(not GSM8K.is_file(), reason=f"{GSM8K} is not here")


class Problems:
    """The first problems of GSM8K, as `giveway eval run` loads them."""

    def content_hash(self) -> bytes:
        return fingerprint("gsm8k", str(ITEMS))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        with GSM8K.open() as lines:
            for number, line in enumerate(itertools.islice(lines, ITEMS), start=1):
                row = json.loads(line)
                payload = {"text": row["question"], "expected": row["answer"]}
                yield str(number), orjson.dumps(payload)

    def skipped(self) -> int:
        return 0


def submitted(one: Rig) -> Submitted:
    params = {
        "model": "fake-chat",
        "prompt": "Q: {{ text }}",
        "max_tokens": 8,
        "repeats": REPEATS,
        "scorers": ["numeric"],
    }
    request = JobRequest("evaluate", params, key="gsm8k", chunk_items=3)
    return one.wiring.submission.submit(request, Problems())


def calls_with_a_kill(processes: Processes, one: Rig, **environment: str) -> int:
    """Calls at the endpoint for a run whose worker dies by kill -9 about half-way."""
    one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    one.endpoint.order({"kind": "delay", "delay_s": 0.1, "path": "chat"})
    worker = processes.worker("batch", **environment).ready()
    job = submitted(one).job
    one.wiring.ringing.ring("main")
    half = ITEMS * REPEATS // 2

    def calls() -> int:
        return int(one.one("SELECT count(*) FROM batch_calls"))

    until(lambda: calls() > half or one.job(job.id).state == "completed", 30, "half of it")
    worker.send(signal.SIGKILL)
    assert 0 < one.progress(job.id).done < ITEMS

    processes.worker("batch", **environment).ready()
    until(lambda: one.progress(job.id).done == ITEMS, 40, "the run")
    return int(one.endpoint.ledger()["requests"])


def test_a_killed_worker_costs_no_more_than_the_calls_it_was_in(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    made = calls_with_a_kill(processes, one)
    assert ITEMS * REPEATS <= made <= ITEMS * REPEATS + IN_FLIGHT
    assert one.one("SELECT count(*) FROM steps") == 0

    again = submitted(one)
    assert (again.created, int(one.endpoint.ledger()["requests"])) == (False, made)
    run: Any = one.wiring.evaluation.run("gsm8k")
    metric = run.summary.metrics["numeric"]
    assert (run.summary.n, metric.scored, metric.repeats) == (ITEMS, ITEMS, REPEATS)
    assert metric.low <= metric.mean <= metric.high


def test_mutant_that_stores_no_steps_pays_for_them_again(
    processes: Processes, rig: MakeRig
) -> None:
    made = calls_with_a_kill(processes, rig(), PYTHONPATH=str(MUTANTS / "no_steps"))
    assert made > ITEMS * REPEATS + IN_FLIGHT
