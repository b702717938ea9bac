"""The backfills: what batch has to do, for Giveway as a job and for plain Celery as tasks.

Both are the same calls on the same texts, and both end in the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from sqlalchemy import text

from app.domain.fingerprint import fingerprint
from app.services.submission import JobRequest
from app.storage.database import Database
from app.storage.vector_store import VectorStore

CHAT, EMBED = "fake-chat", "fake-embed"
MICRO_BATCH = 64
"""Tags a call; a chat is a call of its own."""
LEAST_WORDS, MOST_WORDS = 24, 40
"""Length of a batch answer: the simulated model says a text of one sentence again."""
_SYLLABLES = ("ba", "co", "de", "fi", "gu", "ha", "jo", "ki", "lu", "mo", "ne", "pa", "ri", "so")
WORDS = """
    queue latency batch people index shard cache vector token prompt answer model endpoint lease
    chunk retry limit window reading pressure policy worker broker schedule invoice order refund
    parcel garden river bridge winter harvest engine pilot letter museum theatre violin recipe
""".split()  # noqa: SIM905 - a list of forty words is not for reading


class Backfill(Protocol):
    """Work without end. `stored` counts what is kept, by bin: work counts once it is there."""

    task: str
    stored: str

    def job(self) -> JobRequest:
        """The same as a Giveway job; its items come from `payload`."""
        ...

    def payload(self, number: int) -> dict[str, Any]:
        """The `number`-th item."""
        ...

    def prepare(self, database: Database) -> int:
        """What plain Celery finds in the database; a number for its tasks."""
        ...

    def arguments(self, prepared: int, number: int) -> tuple[Any, ...]:
        """Of plain Celery's `number`-th task."""
        ...


class Tags:
    """Embeddings of short tags, 64 a call: a call is worth some ten decode steps.

    How long a text is decides what there is to control. An engine that spends 12.5 ms on a step of
    answers spends 0.06 ms on each token it reads: 64 sentences of 16 tokens hold up every answer by
    60 ms, and one such request at a time breaks any target under five times the time alone, whoever
    schedules it. With 64 tags of two tokens it is 8 ms, and the number in flight matters.
    """

    task = "plain.embed"
    stored = "SELECT embedded_at AS at FROM embeddings"

    def job(self) -> JobRequest:
        """Kind `embed`."""
        return JobRequest("embed", {"model": EMBED, "collection": "tags"}, key="backfill")

    def payload(self, number: int) -> dict[str, Any]:
        """A tag."""
        return {"text": self.tag(number)}

    @staticmethod
    def tag(number: int) -> str:
        """A word of four syllables, two tokens to the endpoint."""
        base = len(_SYLLABLES)
        return "".join(_SYLLABLES[number // base**place % base] for place in range(4))

    def prepare(self, database: Database) -> int:
        """The collection."""
        with database.transaction() as tx:
            return VectorStore(tx).ensure("tags", EMBED).id

    def arguments(self, prepared: int, number: int) -> tuple[Any, ...]:
        """(collection, model, first sequence, (key, text) of each)."""
        first = number * MICRO_BATCH
        keyed = [(f"k{at}", self.tag(at)) for at in range(first, first + MICRO_BATCH)]
        return prepared, EMBED, first, keyed


class Summaries:
    """Chats: an answer of 24 to 40 tokens to each text, streamed, one a call."""

    task = "plain.generate"
    stored = "SELECT kept_at AS at FROM results"

    def job(self) -> JobRequest:
        """Kind `generate`."""
        return JobRequest("generate", {"model": CHAT, "max_tokens": MOST_WORDS}, key="backfill")

    def payload(self, number: int) -> dict[str, Any]:
        """A text of one sentence."""
        chance = random.Random(number)
        return {"text": " ".join(chance.choices(WORDS, k=chance.randint(LEAST_WORDS, MOST_WORDS)))}

    def prepare(self, database: Database) -> int:  # noqa: ARG002 - results need nothing before
        """Nothing."""
        return 0

    def arguments(self, prepared: int, number: int) -> tuple[Any, ...]:
        """(job, sequence, model, prompt, most tokens)."""
        return prepared, number, CHAT, self.payload(number)["text"], MOST_WORDS


@dataclass(frozen=True, slots=True)
class Items:
    """The first `count` items of a backfill, as a source of a job."""

    backfill: Backfill
    count: int

    def content_hash(self) -> bytes:
        """What the items are is told by their number."""
        return fingerprint("benchmark", self.backfill.task, str(self.count))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Keys and payloads."""
        for at in range(self.count):
            yield f"k{at}", orjson.dumps(self.backfill.payload(at))

    def skipped(self) -> int:
        """None."""
        return 0


STAMP = text("ALTER TABLE results ADD COLUMN kept_at timestamptz DEFAULT clock_timestamp()")
"""Results have no time of their own; here each row gets that of its insert, whoever made it."""
