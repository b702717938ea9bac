"""relay: a kind for tests. Its items are said part by part, then as one, then made a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.domain.results import Item, ItemResult, Status
from app.kinds.base import Calls, Params, Prepared, by_text


class RelayParams(Params):
    """`parts` are split at `|`."""

    embedder: str | None = None
    max_tokens: int = 8


@dataclass(frozen=True, slots=True)
class Relay:
    name: str = "relay"
    params: type[Params] = RelayParams
    together: bool = False

    def collection(self, params: RelayParams) -> None:
        return None

    def models(self, params: RelayParams) -> tuple[str, ...]:
        return (params.model,) if params.embedder is None else (params.model, params.embedder)

    def prepare(self, items: Sequence[Item], params: RelayParams) -> Prepared:
        return by_text(items, params)

    def step(self, item: Item, done: Mapping[str, Any], params: RelayParams) -> Calls | ItemResult:
        text = item.payload["text"]
        if text == "alone":
            return ItemResult(item.seq, Status.DONE, output="no call")
        if text == "broken":
            raise ValueError("SECRET text of an item")
        if text == "stuck":
            return Calls({})
        names = [f"part:{number}" for number, _ in enumerate(text.split("|"))]
        if not done.keys() >= set(names):
            parts = zip(names, text.split("|"), strict=True)
            return Calls({name: self._chat(part, params) for name, part in parts})
        whole = " ".join(done[name]["text"] for name in names)
        if "whole" not in done:
            return Calls({"whole": self._chat(whole, params)})
        if params.embedder is not None and "vector" not in done:
            return Calls({"vector": EmbedRequest(params.embedder, (done["whole"]["text"],))})
        output = {"text": done["whole"]["text"], "steps": sorted(done)}
        return ItemResult(item.seq, Status.DONE, output=output)

    def _chat(self, text: str, params: RelayParams) -> ChatRequest:
        return ChatRequest(params.model, (Message("user", text),), params.max_tokens, 0.0)


KIND = Relay()
