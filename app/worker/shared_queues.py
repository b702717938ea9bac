"""Queues on RabbitMQ that somebody else may have declared first: what is there is taken as it is.

RabbitMQ refuses to declare a queue with other arguments than it has, and closes the channel. So we
look first, on a channel of its own, and declare what is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from amqp.exceptions import ChannelError, NotFound, PreconditionFailed
from kombu import Exchange, Queue

_DIFFERS = re.compile(
    r"inequivalent arg '(?P<what>[^']+)'.*?received (?P<ours>.*?) but current is (?P<there>.*)"
)


class SharedExchange(Exchange):
    """An exchange that is declared where there is none."""

    def declare(
        self, nowait: bool = False, passive: bool | None = None, channel: Any = None
    ) -> Any:
        """Declare it, or find it."""
        channel = channel or self.channel
        declare = super().declare
        if not passive and _is_there(channel, lambda own: declare(passive=True, channel=own)):
            return None
        return declare(nowait=nowait, passive=passive, channel=channel)


class SharedQueue(Queue):
    """A queue that is declared where there is none."""

    def queue_declare(
        self, nowait: bool = False, passive: bool = False, channel: Any = None
    ) -> Any:
        """Declare it, or find it."""
        channel = channel or self.channel
        declare = super().queue_declare
        if not passive and _is_there(channel, lambda own: declare(passive=True, channel=own)):
            return self.name
        return declare(nowait=nowait, passive=passive, channel=channel)


def _is_there(channel: Any, look: Callable[[Any], object]) -> bool:
    own = channel.connection.channel()
    try:
        look(own)
    except NotFound:
        return False  # And the broker has closed the channel.
    own.close()
    return True


def declared_otherwise(connection: Any, queue: Queue) -> str | None:
    """How the queue of that name differs from `queue`, as the broker says; None: it does not, or
    there is none. Changes nothing: what is there is only asked whether it is the same."""
    own = connection.channel()
    try:
        own.queue_declare(queue=queue.name, passive=True)
        own.queue_declare(
            queue=queue.name,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            arguments=queue.queue_arguments,
        )
    except PreconditionFailed as error:
        found = _DIFFERS.search(str(error.reply_text))
        return (
            str(error.reply_text)
            if found is None
            else f"{found['what']} is {_value(found['there'])}, not {_value(found['ours'])}"
        )
    except ChannelError:
        return None
    own.close()
    return None


def _value(said: str) -> str:
    """`the value '9' of type 'signedint'` is 9."""
    quoted = re.search(r"'([^']*)'", said)
    return quoted[1] if quoted else said.strip()
