"""How fast a job goes: pure arithmetic over what was seen of it lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_S = 15.0


@dataclass(frozen=True, slots=True)
class Seen:
    """So many items were over at this moment (seconds on a clock that never jumps)."""

    at_s: float
    over: int


def items_per_s(seen: Sequence[Seen], window_s: float = WINDOW_S) -> float | None:
    """Items a second over the last `window_s`; None: not known yet. Never negative: after a retry
    fewer items are over than before."""
    if not seen:
        return None
    last = seen[-1]
    first = next(one for one in seen if last.at_s - one.at_s <= window_s)
    if last.at_s <= first.at_s:
        return None
    return max(0.0, (last.over - first.over) / (last.at_s - first.at_s))


def left_s(pending: int, per_s: float | None) -> float | None:
    """Seconds until the rest is done at this pace; None: no pace, or none known."""
    if pending == 0:
        return 0.0
    return pending / per_s if per_s else None
