"""Asking as a person does, in front of all batch work, through the interactive queue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import clock
from app.errors import GivewayError, Unavailable
from app.wiring import Wiring
from app.worker import reaching

_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and where. `facts`: tokens and times, by name."""

    text: str
    model: str
    endpoint: str
    facts: dict[str, Any]


def ask(wiring: Wiring, asked: dict[str, Any], deadline_s: float) -> Answer:
    """The answer to a chat request. Unavailable: none within `deadline_s`."""
    reply = _reply(wiring, "chat", asked, deadline_s)
    text = str(reply.pop("text"))
    return Answer(text, str(reply.pop("model")), str(reply.pop("endpoint")), reply)


def embed(
    wiring: Wiring, texts: Sequence[str], model: str, priority: int, deadline_s: float
) -> NDArray[np.float32]:
    """Vectors of `texts`: (len(texts), dimension), same order."""
    asked = {"texts": list(texts), "model": model, "priority": priority}
    reply = _reply(wiring, "embed", asked, deadline_s)
    return np.asarray(reply["vectors"], dtype=np.float32)


def _reply(wiring: Wiring, task: str, asked: dict[str, Any], deadline_s: float) -> dict[str, Any]:
    from celery.exceptions import TaskRevokedError
    from celery.exceptions import TimeoutError as NoResult
    from celery.result import allow_join_result

    from app.worker.interactive_tasks import as_uuid, facts
    from app.worker.queues import broker_priority

    kwargs = {**asked, "submitted_at": clock.now().timestamp()}
    # Whoever asks may be a task of another app: Celery then has to be told that waiting is meant.
    with reaching.celery_that_answers(wiring) as app, allow_join_result():
        result = app.send_task(
            f"giveway.interactive.{task}",
            kwargs=kwargs,
            argsrepr="()",
            kwargsrepr=facts(kwargs),
            priority=broker_priority(asked.get("priority", 0), app.conf.broker_url),
            expires=deadline_s,
            retry=False,
        )
        try:
            reply: dict[str, Any] = result.get(
                timeout=deadline_s + _GRACE_S, disable_sync_subtasks=False
            )
        except (NoResult, TaskRevokedError):
            with suppress(GivewayError):
                wiring.interactive.cancel(as_uuid(result.id))
            raise Unavailable(
                f"no answer within {deadline_s:g} s; does the interactive worker run?"
            ) from None
    return reply
