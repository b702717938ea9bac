"""Lengths: what no endpoint could take, known before a job is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.routing import EndpointSpec, serving

MOST_BYTES_A_TOKEN = 64
"""Text whose tokens are longer than this on average is none: a text with more bytes than that is
surely too long, whatever the tokenizer. Whether a shorter one is, is counted before it is sent."""
_AROUND_BYTES = 512
"""Of a request, beside its texts."""


@dataclass(frozen=True, slots=True)
class Longest:
    """The most that some endpoint takes of one model in one call: tokens of an input (None: not
    known) and bytes of the request."""

    input_tokens: int | None
    request_bytes: int

    @property
    def surely_fits_chars(self) -> int:
        """A call with no more characters than this is no excess: UTF-8 makes four bytes of one at
        most, and JSON six."""
        most = (self.request_bytes - _AROUND_BYTES) // 6
        if self.input_tokens is not None:
            most = min(most, self.input_tokens * MOST_BYTES_A_TOKEN // 4)
        return most

    def excess(self, texts: Sequence[str]) -> str | None:
        """Why no endpoint could take a call with `texts`; None: one may."""
        sent = sum(len(json.dumps(text, ensure_ascii=False).encode(*_UTF_8)) for text in texts)
        if sent + _AROUND_BYTES > self.request_bytes:
            return (
                f"a request of {sent:,} bytes, where an endpoint takes {self.request_bytes:,} "
                "(max_request_bytes)"
            )
        if self.input_tokens is None:
            return None
        longest = max((len(text.encode(*_UTF_8)) for text in texts), default=0)
        if longest > self.input_tokens * MOST_BYTES_A_TOKEN:
            return (
                f"a text of {longest:,} bytes, surely more than the {self.input_tokens:,} tokens "
                "that an endpoint takes (max_input_tokens or max_batch_tokens)"
            )
        return None


_UTF_8 = ("utf-8", "surrogatepass")


def longest_of(model: str, specs: Iterable[EndpointSpec]) -> Longest | None:
    """The most that some of `specs` takes of `model`; None: none serves it."""
    there = serving(model, list(specs))
    if not there:
        return None
    tokens = [_input_tokens(spec, model) for spec in there]
    known = [most for most in tokens if most is not None]
    return Longest(
        max(known) if len(known) == len(tokens) else None,
        max(spec.max_request_bytes for spec in there),
    )


def _input_tokens(spec: EndpointSpec, model: str) -> int | None:
    """Tokens of one input: it is never longer than all of a request."""
    takes = spec.takes(model)
    told = [most for most in (takes.input_tokens, takes.tokens) if most is not None]
    return min(told, default=None)
