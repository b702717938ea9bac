"""When a collection's index is built and when it is in the way.

Every vector that is written into an HNSW graph is searched for its neighbours first, which makes a
backfill five to seven times slower; building the graph once afterwards costs a fraction of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class IndexRules:
    """Below `worth` vectors a search looks at each one: that is exact and takes milliseconds.

    A load of more than `bulk_share` of what is there drops the index first.
    """

    worth: int = 20_000
    bulk_share: float = 0.2


class Move(StrEnum):
    """What to do about the index."""

    BUILD = "build"
    DROP = "drop"
    KEEP = "keep"


def move(vectors: int, coming: int, *, indexed: bool, rules: IndexRules) -> Move:
    """What to do with `vectors` there and `coming` still to be written by open jobs.

    With nothing coming a collection worth it is indexed. With much coming an index is dropped, and
    none is built; a trickle is let into the index that is there.
    """
    is_bulk = coming > max(rules.worth * rules.bulk_share, vectors * rules.bulk_share)
    if indexed:
        return Move.DROP if is_bulk else Move.KEEP
    return Move.BUILD if vectors >= rules.worth and not is_bulk else Move.KEEP
