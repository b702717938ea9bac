"""Kill anything at any time: nothing is lost, nothing is paid twice.

One stack is killed in all of these ways, a job of its own for each. The figures of the issue are
those of 20,000 items: TEST_ROWS=20000.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeStack
from tests.acceptance.stack import Stack, documents

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(400)]

ITEMS = int(os.environ.get("TEST_ROWS", "6000"))
IN_FLIGHT = 7 * 64
"""Items in the micro-batches that can be in flight at a kill: batch_max calls of 64."""
MUTANTS = Path(__file__).parent / "mutants"


def begin(one: Stack, key: str, folder: Path) -> None:
    """A job with a collection of its own, which has its key's name."""
    one.submit(documents(folder / "docs.jsonl", ITEMS), key, collection=key)


def wait_in_the_midst(one: Stack, key: str, step: int, steps: int) -> None:
    """Until this step of the way is done; a kill after the end of the job would show nothing."""
    one.wait_done(key, step * ITEMS // (2 * steps))
    assert one.done(key) < ITEMS


def all_there_and_none_twice(one: Stack, key: str, kills: int) -> None:
    job = one.wait_completed(key)
    ledger = one.endpoint.ledger()
    vectors = (
        "SELECT count(*) FROM embeddings e JOIN collections c ON c.id = e.collection_id"
        f" WHERE c.name = '{key}'"
    )
    results = f"SELECT count(*) FROM results r JOIN jobs j ON j.id = r.job_id WHERE key = '{key}'"
    assert (job["state"], job["done"], job["failed"]) == ("completed", ITEMS, 0)
    assert one.query(vectors) == ITEMS
    assert one.query(results) == ITEMS
    assert ledger["distinct_inputs"] == ITEMS
    assert ledger["inputs"] <= ITEMS + kills * IN_FLIGHT


def each_is_killed_in_turn(one: Stack, folder: Path, names: list[str]) -> None:
    begin(one, "each", folder)
    for step, name in enumerate(names, start=1):
        wait_in_the_midst(one, "each", step, len(names))
        one.kill(name)
    all_there_and_none_twice(one, "each", kills=len(names))


def test_each_process_is_killed_in_turn_and_the_job_completes(
    shared: Stack, tmp_path: Path
) -> None:
    names = ["batch", "control", "beat", "valkey", "postgres"]
    each_is_killed_in_turn(shared, tmp_path, names)


@pytest.mark.rabbitmq
def test_each_process_is_killed_in_turn_on_rabbitmq(
    stack: MakeStack, rabbitmq_url: str, tmp_path: Path
) -> None:
    one = stack(GIVEWAY_BROKER__URL=rabbitmq_url)
    each_is_killed_in_turn(one, tmp_path, ["batch", "control", "beat", "postgres"])


def test_a_flushed_broker_is_no_loss(shared: Stack, tmp_path: Path) -> None:
    import redis

    begin(shared, "flushed", tmp_path)
    for step in range(1, 4):
        wait_in_the_midst(shared, "flushed", step, 3)
        with redis.Redis.from_url(shared.state.addresses.broker_url) as client:
            client.flushall()
    all_there_and_none_twice(shared, "flushed", kills=0)


def test_everything_is_killed_at_once_and_started_again(shared: Stack, tmp_path: Path) -> None:
    begin(shared, "at-once", tmp_path)
    wait_in_the_midst(shared, "at-once", 1, 1)
    shared.kill_all()
    shared.up()
    all_there_and_none_twice(shared, "at-once", kills=1)


def test_mutant_that_does_not_skip_finished_items_pays_twice(
    stack: MakeStack, tmp_path: Path
) -> None:
    """The same kills, with the skip of finished items taken out of the workers."""
    one = stack(PYTHONPATH=str(MUTANTS / "no_skip"))
    begin(one, "mutant", tmp_path)
    for step in range(1, 4):
        wait_in_the_midst(one, "mutant", step, 3)
        one.kill("batch")
    with pytest.raises(AssertionError):
        all_there_and_none_twice(one, "mutant", kills=3)
