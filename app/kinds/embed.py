"""embed: a vector for each text, into a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from app.domain.cleaning import is_blank
from app.domain.fingerprint import ContentHash
from app.domain.inference import ChatReply, EmbedReply, EmbedRequest, rough_tokens
from app.domain.results import Item, ItemResult, Status
from app.errors import BadReply
from app.kinds.base import Params, Prepared, Read, Unit


class EmbedParams(Params):
    """`prefix` is put before every text, as models such as e5 want it ("passage: ")."""

    collection: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Embed:
    """The kind."""

    name: str = "embed"
    params: type[Params] = EmbedParams
    together: bool = True

    def collection(self, params: EmbedParams) -> str:
        """Where the vectors go."""
        return params.collection

    def prepare(self, items: Sequence[Item], params: EmbedParams) -> Prepared:
        """Blank texts are never sent: no server takes them, and a zero vector would be a lie."""
        hashes = ContentHash({"model": params.model, "prefix": params.prefix})
        units: list[Unit] = []
        results: list[ItemResult] = []
        for item in items:
            text = item.payload.get("text", "")
            if is_blank(text):
                results.append(ItemResult(item.seq, Status.EMPTY, code="empty"))
            else:
                whole = params.prefix + text
                units.append(Unit(item, whole, rough_tokens(whole), hashes.of(text)))
        return Prepared(units, results)

    def request(self, units: Sequence[Unit], params: EmbedParams) -> EmbedRequest:
        """All texts of the micro-batch in one request."""
        return EmbedRequest(params.model, tuple(unit.text for unit in units))

    def read(
        self, units: Sequence[Unit], reply: EmbedReply | ChatReply, params: EmbedParams
    ) -> Read:
        """One vector a unit; the request's tokens are shared out by the units' own weight."""
        if not isinstance(reply, EmbedReply):
            raise BadReply(f"model {params.model} answered with text, not with vectors")
        weight = sum(unit.tokens for unit in units) or 1
        total = reply.usage.prompt_tokens
        results = [
            ItemResult(unit.item.seq, Status.DONE, tokens=round(total * unit.tokens / weight))
            for unit in units
        ]
        return Read(results, reply.vectors, total)


KIND = Embed()
