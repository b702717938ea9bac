"""The queues: one a class of work, each with a worker of its own."""

from __future__ import annotations

from collections.abc import Collection

from kombu import Exchange, Queue

INTERACTIVE = "interactive"
BATCH = "batch"
CONTROL = "control"
NAMES = (INTERACTIVE, BATCH, CONTROL)

COMMANDS = "\n".join(f"  celery -A app worker -P threads -Q {name} -n {name}@%h" for name in NAMES)


def queues(broker_url: str) -> list[Queue]:
    """Declared for this broker: quorum queues on RabbitMQ, lists on Redis and Valkey."""
    is_amqp = broker_url.split("://", maxsplit=1)[0] in ("amqp", "amqps", "pyamqp")
    arguments = {"x-queue-type": "quorum"} if is_amqp else None
    return [
        Queue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=arguments)
        for name in NAMES
    ]


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
