"""The queues: one a class of work, each with a worker of its own."""

from __future__ import annotations

from collections.abc import Collection

from kombu import Exchange, Queue

from app.domain.requests import MOST_PRIORITY, checked_priority
from app.settings import Settings

INTERACTIVE = "interactive"
BATCH = "batch"
CONTROL = "control"
NAMES = (INTERACTIVE, BATCH, CONTROL)

COMMANDS = "\n".join(f"  celery -A app worker -P threads -Q {name} -n {name}@%h" for name in NAMES)

_QUORUM = {"x-queue-type": "quorum"}
PRIORITY_STEPS = tuple(range(MOST_PRIORITY + 1))
"""Redis and Valkey: a list for each priority, where kombu has only four unless it is told."""


def queues(broker_url: str) -> list[Queue]:
    """Declared for this broker: lists on Redis and Valkey; on RabbitMQ quorum queues, but for
    people one without arguments, as every Celery app declares it that sends to it by its name."""
    if not is_rabbitmq(broker_url):
        return [Queue(name, Exchange(name, type="direct"), routing_key=name) for name in NAMES]
    from app.worker.shared_queues import SharedExchange, SharedQueue

    kinds = {INTERACTIVE: None, BATCH: _QUORUM, CONTROL: _QUORUM}
    return [
        SharedQueue(name, SharedExchange(name), routing_key=name, queue_arguments=arguments)
        for name, arguments in kinds.items()
    ]


def broker_priority(priority: int, broker_url: str) -> int:
    """What the broker must be told for a request of our `priority`, 0 to 9, the higher first.

    RabbitMQ agrees with us; on Redis and Valkey kombu empties the list of priority 0 first.
    BadParams: another number.
    """
    priority = checked_priority(priority)
    return priority if is_rabbitmq(broker_url) else MOST_PRIORITY - priority


def is_rabbitmq(broker_url: str) -> bool:
    """Whether the broker speaks AMQP."""
    return broker_url.split("://", maxsplit=1)[0] in ("amqp", "amqps", "pyamqp")


def threads(chosen: Collection[str], settings: Settings) -> int:
    """Threads of a worker of these queues. None chosen means all."""
    by_name = {
        INTERACTIVE: settings.interactive_threads,
        BATCH: settings.batch_threads,
        CONTROL: settings.control_threads,
    }
    return sum(by_name[name] for name in set(chosen or NAMES))


def refusal(chosen: Collection[str], *, shared_is_wanted: bool) -> str | None:
    """Why a worker of these queues is not started; None: it may start. None chosen means all."""
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        return f"no queue {unknown[0]!r}; known queues: {', '.join(NAMES)}"
    if len(chosen) == 1 or shared_is_wanted:
        return None
    return (
        "one worker for several queues takes from them in turn, so people wait for batch work.\n"
        f"Start one worker a queue:\n{COMMANDS}\n"
        "or set GIVEWAY_WORKER__SHARED=true if you want a shared one all the same"
    )
