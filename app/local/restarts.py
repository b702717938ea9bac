"""When a process that died is started again: at once, then later and later, then never."""

from __future__ import annotations

QUICK_S = 5.0
"""One that lived no longer than this has not really come up."""
MOST_IN_ROW = 5
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 5.0


def deaths_in_row(before: int, lived_s: float) -> int:
    """How many quick deaths in a row this is, the present one included."""
    return before + 1 if lived_s < QUICK_S else 1


def delay_s(in_row: int) -> float | None:
    """Seconds to wait before the next start; None: give up."""
    if in_row >= MOST_IN_ROW:
        return None
    if in_row <= 1:
        return 0.0
    return float(min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** (in_row - 2)))
