"""embed: a vector for each text, into a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.domain.cleaning import JSON, is_blank
from app.domain.fingerprint import ContentHash
from app.domain.inference import ChatReply, EmbedReply, EmbedRequest, rough_tokens
from app.domain.results import Item, ItemResult, Status
from app.domain.splitting import Piece, beginning, pieces
from app.errors import BadReply
from app.kinds.base import Params, Prepared, Read, Unit


class EmbedParams(Params):
    """`prefix` is put before every text, as models such as e5 want it ("passage: ")."""

    collection: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    prefix: str = ""
    long_texts: Literal["send", "fail", "truncate", "split"] = "send"
    """What is done with a text longer than most_tokens: send it as it is and let the server decide,
    fail it, cut it (which its result says), or split it into pieces with a vector each."""
    most_tokens: Annotated[int, Field(ge=16)] | None = None
    """Longest text, or piece of one, in tokens, counted roughly: four characters are one."""
    overlap_tokens: Annotated[int, Field(ge=0)] = 0
    """Of pieces: so much of the one before is repeated."""

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        if self.long_texts != "send" and self.most_tokens is None:
            raise ValueError(f"long_texts = {self.long_texts!r} needs most_tokens")
        if self.overlap_tokens and self.long_texts != "split":
            raise ValueError("overlap_tokens is for long_texts = 'split'")
        if self.overlap_tokens * 2 > (self.most_tokens or 0) and self.overlap_tokens:
            raise ValueError("overlap_tokens must be at most half of most_tokens")
        return self

    @property
    def hashed(self) -> dict[str, JSON]:
        """What beside the text decides about the vectors."""
        said: dict[str, JSON] = {"model": self.model, "prefix": self.prefix}
        if self.long_texts in ("truncate", "split"):
            said["long_texts"], said["most_tokens"] = self.long_texts, self.most_tokens
        if self.overlap_tokens:
            said["overlap_tokens"] = self.overlap_tokens
        return said


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
        hashes = ContentHash(params.hashed)
        units: list[Unit] = []
        results: list[ItemResult] = []
        for item in items:
            text = item.payload.get("text", "")
            if is_blank(text):
                results.append(ItemResult(item.seq, Status.EMPTY, code="empty"))
                continue
            found = _pieces(text, params)
            if found is None:
                results.append(ItemResult(item.seq, Status.FAILED, "too_long", _too_long(params)))
                continue
            content_hash = hashes.of(text)
            units += _units(item, found, params.prefix, content_hash, len(text))
        return Prepared(units, results)

    def request(self, units: Sequence[Unit], params: EmbedParams) -> EmbedRequest:
        """All texts of the micro-batch in one request."""
        return EmbedRequest(params.model, tuple(unit.text for unit in units))

    def read(
        self, units: Sequence[Unit], reply: EmbedReply | ChatReply, params: EmbedParams
    ) -> Read:
        """One vector a unit; the request's tokens are shared out by the units' own weight.

        A text that was cut says where in its result.
        """
        if not isinstance(reply, EmbedReply):
            raise BadReply(f"model {params.model} answered with text, not with vectors")
        weight = sum(unit.tokens for unit in units) or 1
        total = reply.usage.prompt_tokens
        cut = params.long_texts == "truncate"
        results = [
            ItemResult(
                unit.item.seq,
                Status.DONE,
                tokens=round(total * unit.tokens / weight),
                output={"truncated_at": unit.ends} if cut and unit.ends is not None else None,
            )
            for unit in units
            if unit.last
        ]
        return Read(results, reply.vectors, total)


def _pieces(text: str, params: EmbedParams) -> list[Piece] | None:
    """What of `text` is sent; None: it is too long."""
    most = params.most_tokens
    if params.long_texts == "send" or most is None or rough_tokens(text) <= most:
        return [Piece(0, len(text), text)]
    if params.long_texts == "fail":
        return None
    if params.long_texts == "truncate":
        return [beginning(text, most)]
    return pieces(text, most, params.overlap_tokens)


def _units(
    item: Item, found: Sequence[Piece], prefix: str, content_hash: bytes, length: int
) -> list[Unit]:
    last = len(found) - 1
    whole = last == 0 and found[0].ends == length
    return [
        Unit(
            item,
            prefix + piece.text,
            rough_tokens(prefix + piece.text),
            content_hash,
            piece=number,
            begins=None if whole else piece.begins,
            ends=None if whole else piece.ends,
            last=number == last,
        )
        for number, piece in enumerate(found)
    ]


def _too_long(params: EmbedParams) -> str:
    return f"longer than {params.most_tokens} tokens; cut or split with long_texts"


KIND = Embed()
