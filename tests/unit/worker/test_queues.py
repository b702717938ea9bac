"""Our priority as each broker has it."""

from __future__ import annotations

import pytest

from app.errors import BadParams
from app.settings import Settings
from app.worker.queues import PRIORITY_STEPS, broker_priority, queues, threads

RABBITMQ, VALKEY = "amqp://guest@localhost//", "redis://localhost/0"


def test_the_two_brokers_count_the_other_way() -> None:
    assert [broker_priority(n, RABBITMQ) for n in (0, 5, 9)] == [0, 5, 9]
    assert [broker_priority(n, VALKEY) for n in (0, 5, 9)] == [9, 4, 0]


def test_every_priority_has_a_place_of_its_own_on_both() -> None:
    assert {broker_priority(n, VALKEY) for n in range(10)} == set(PRIORITY_STEPS)
    people = next(queue for queue in queues(RABBITMQ) if queue.name == "interactive")
    assert not people.queue_arguments  # As send_task(queue="interactive") declares it anywhere.


def test_batch_and_control_are_quorum_queues_on_rabbitmq() -> None:
    kinds = {queue.name: queue.queue_arguments for queue in queues(RABBITMQ)}
    assert kinds["batch"] == kinds["control"] == {"x-queue-type": "quorum"}
    assert all(queue.queue_arguments is None for queue in queues(VALKEY))


def test_a_priority_out_of_range_is_refused() -> None:
    with pytest.raises(BadParams, match="from 0 to 9"):
        broker_priority(10, VALKEY)


def test_a_workers_threads_are_those_of_its_queues() -> None:
    settings = Settings()
    assert threads(["batch"], settings) == settings.batch_threads
    assert threads(["batch", "control"], settings) == settings.batch_threads + 8
    assert threads([], settings) == threads(["interactive", "batch", "control"], settings)
