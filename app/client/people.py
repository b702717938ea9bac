"""Asking as a person does, in front of all batch work, through the interactive queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from app.worker.asking import Asker


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and where. `facts`: tokens and times, by name."""

    text: str
    model: str
    endpoint: str
    facts: dict[str, Any]


def ask(asker: Asker, asked: dict[str, Any], deadline_s: float) -> Answer:
    """The answer to a chat request. Unavailable: none within `deadline_s`."""
    reply = asker.ask("chat", asked, deadline_s)
    text = str(reply.pop("text"))
    return Answer(text, str(reply.pop("model")), str(reply.pop("endpoint")), reply)


def embed(
    asker: Asker, texts: Sequence[str], model: str, priority: int, deadline_s: float
) -> NDArray[np.float32]:
    """Vectors of `texts`: (len(texts), dimension), same order."""
    asked = {"texts": list(texts), "model": model, "priority": priority}
    reply = asker.ask("embed", asked, deadline_s)
    return np.asarray(reply["vectors"], dtype=np.float32)
