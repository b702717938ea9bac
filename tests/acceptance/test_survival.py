"""Kill anything at any time: nothing is lost, nothing is paid twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeStack
from tests.acceptance.stack import Stack, documents

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(400)]

ITEMS = 20_000
IN_FLIGHT = 7 * 64
"""Items in the micro-batches that can be in flight at a kill: batch_max calls of 64."""
MUTANTS = Path(__file__).parent / "mutants"


def all_there_and_none_twice(stack: Stack, kills: int) -> None:
    job = stack.wait_completed("nightly-1")
    ledger = stack.endpoint.ledger()
    assert (job["state"], job["done"], job["failed"]) == ("completed", ITEMS, 0)
    assert stack.query("SELECT count(*) FROM embeddings") == ITEMS
    assert stack.query("SELECT count(*) FROM results") == ITEMS
    assert ledger["distinct_inputs"] == ITEMS
    assert ledger["inputs"] <= ITEMS + kills * IN_FLIGHT


def test_each_process_is_killed_in_turn_and_the_job_completes(
    stack: MakeStack, broker: dict[str, str], tmp_path: Path
) -> None:
    one = stack(**broker)
    one.submit(documents(tmp_path / "docs.jsonl", ITEMS), "nightly-1")
    names = ["batch", "control", "beat", *(["valkey"] if not broker else []), "postgres"]
    for step, name in enumerate(names, start=1):
        one.wait_done("nightly-1", step * 1000)
        one.kill(name)
    all_there_and_none_twice(one, kills=len(names))


def test_a_flushed_broker_is_no_loss(stack: MakeStack, tmp_path: Path) -> None:
    import redis

    one = stack()
    one.submit(documents(tmp_path / "docs.jsonl", ITEMS), "nightly-1")
    for step in range(1, 4):
        one.wait_done("nightly-1", step * 3000)
        with redis.Redis.from_url(one.json("status", "--show-secrets")["broker_url"]) as client:
            client.flushall()
    all_there_and_none_twice(one, kills=0)


def test_everything_is_killed_at_once_and_started_again(stack: MakeStack, tmp_path: Path) -> None:
    one = stack()
    one.submit(documents(tmp_path / "docs.jsonl", ITEMS), "nightly-1")
    one.wait_done("nightly-1", 5000)
    one.kill_all()
    one.up()
    all_there_and_none_twice(one, kills=1)


def test_mutant_that_does_not_skip_finished_items_pays_twice(
    stack: MakeStack, tmp_path: Path
) -> None:
    """The same kills, with the skip of finished items taken out of the workers."""
    one = stack(PYTHONPATH=str(MUTANTS / "no_skip"))
    one.submit(documents(tmp_path / "docs.jsonl", ITEMS), "nightly-1")
    for step in range(1, 5):
        one.wait_done("nightly-1", step * 2000)
        one.kill("batch")
    with pytest.raises(AssertionError):
        all_there_and_none_twice(one, kills=4)
