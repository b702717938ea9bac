"""How many requests the work that waits will take."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from app.errors import UnknownName
from app.kinds.registry import kind as kind_named
from app.storage.gauge_store import Backlog


def requests_in(backlog: Sequence[Backlog], micro_batch_items: int) -> int:
    """One an item, or one a micro-batch where the items of a kind go together."""
    return sum(
        ceil(work.items / (micro_batch_items if _together(work.kind) else 1)) for work in backlog
    )


def _together(kind: str) -> bool:
    try:
        return kind_named(kind).together
    except UnknownName:
        return False
