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


def begin(one: Stack, key: str, folder: Path, items: int = ITEMS) -> None:
    """A job with a collection of its own, which has its key's name."""
    one.submit(documents(folder / "docs.jsonl", items), key, collection=key)


def wait_in_the_midst(one: Stack, key: str, count: int, items: int = ITEMS) -> None:
    """Until `count` items are done; a kill after the end of the job would show nothing."""
    one.wait_done(key, count)
    assert one.done(key) < items


def all_there_and_none_twice(one: Stack, key: str, kills: int, items: int = ITEMS) -> None:
    job = one.wait_completed(key)
    ledger = one.endpoint.ledger()
    vectors = (
        "SELECT count(*) FROM embeddings e JOIN collections c ON c.id = e.collection_id"
        f" WHERE c.name = '{key}'"
    )
    results = f"SELECT count(*) FROM results r JOIN jobs j ON j.id = r.job_id WHERE key = '{key}'"
    assert (job["state"], job["done"], job["failed"]) == ("completed", items, 0)
    assert one.query(vectors) == items
    assert one.query(results) == items
    assert ledger["distinct_inputs"] == items
    assert ledger["inputs"] <= items + kills * IN_FLIGHT


def each_is_killed_in_turn(one: Stack, folder: Path, names: list[str]) -> None:
    """Each in the midst of a job of its own: how soon it is back is the machine's matter."""
    for name in names:
        key = f"kill-{name}"
        one.endpoint.calm()
        one.endpoint.order({"kind": "delay", "delay_s": 1.0, "path": "embeddings"})
        begin(one, key, folder, ITEMS // 4)
        wait_in_the_midst(one, key, 1, ITEMS // 4)
        one.kill(name)
        one.endpoint.order_none()
        all_there_and_none_twice(one, key, kills=1, items=ITEMS // 4)


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
        wait_in_the_midst(shared, "flushed", step * ITEMS // 6)
        with redis.Redis.from_url(shared.state.addresses.broker_url) as client:
            client.flushall()
    all_there_and_none_twice(shared, "flushed", kills=0)


def test_everything_is_killed_at_once_and_started_again(shared: Stack, tmp_path: Path) -> None:
    begin(shared, "at-once", tmp_path)
    wait_in_the_midst(shared, "at-once", ITEMS // 2)
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
        wait_in_the_midst(one, "mutant", step * ITEMS // 6)
        one.kill("batch")
    with pytest.raises(AssertionError):
        all_there_and_none_twice(one, "mutant", kills=3)
