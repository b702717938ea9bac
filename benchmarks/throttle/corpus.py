"""The backfill's texts: short tags, so that a micro-batch of 64 is worth some ten decode steps.

How long a text is decides what there is to control. An engine that spends 12.5 ms on a step of
answers spends 0.06 ms on each token it reads: 64 sentences of 16 tokens hold up every answer by
60 ms, and one such request at a time breaks any target under five times the time alone, whoever
schedules it. With 64 tags of two tokens it is 8 ms, and the number in flight matters.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from app.domain.fingerprint import fingerprint

MICRO_BATCH = 64
_SYLLABLES = ("ba", "co", "de", "fi", "gu", "ha", "jo", "ki", "lu", "mo", "ne", "pa", "ri", "so")


def tag(number: int) -> str:
    """The `number`-th text: a word of four syllables, two tokens to the endpoint."""
    base = len(_SYLLABLES)
    return "".join(_SYLLABLES[number // base**place % base] for place in range(4))


def micro_batch(number: int) -> list[tuple[str, str]]:
    """(key, text) of the `number`-th micro-batch."""
    first = number * MICRO_BATCH
    return [(f"k{at}", tag(at)) for at in range(first, first + MICRO_BATCH)]


class Tags:
    """The first `count` texts, as a source of a job."""

    def __init__(self, count: int) -> None:
        self._count = count

    def content_hash(self) -> bytes:
        """What the texts are is told by their number."""
        return fingerprint("benchmark tags", str(self._count))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Keys and payloads."""
        for at in range(self._count):
            yield f"k{at}", orjson.dumps({"text": tag(at)})

    def skipped(self) -> int:
        """None."""
        return 0
