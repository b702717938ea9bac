"""faulty: a kind for tests whose code fails where an item tells it to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.inference import ChatReply, ChatRequest, Message
from app.domain.results import Item, ItemResult, Status
from app.kinds.base import Params, Prepared, Read, Unit, by_text


@dataclass(frozen=True, slots=True)
class Faulty:
    name: str = "faulty"
    params: type[Params] = Params
    together: bool = False

    def collection(self, params: Params) -> None:
        return None

    def prepare(self, items: Sequence[Item], params: Params) -> Prepared:
        if any("in prepare" in item.payload["text"] for item in items):
            raise LookupError("SECRET text of an item")
        return by_text(items, params)

    def request(self, units: Sequence[Unit], params: Params) -> ChatRequest:
        if "in request" in units[0].text:
            raise ValueError("SECRET text of an item")
        return ChatRequest(params.model, (Message("user", units[0].text),), 4, 0.0)

    def read(self, units: Sequence[Unit], reply: ChatReply, params: Params) -> Read:
        if "in read" in units[0].text:
            raise KeyError("SECRET text of an item")
        result = ItemResult(units[0].item.seq, Status.DONE, output=reply.text)
        return Read([result], None, reply.usage.prompt_tokens, reply.usage.completion_tokens)


KIND = Faulty()
