"""Durations and moments as people write them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from app.errors import UsageError

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_UNITS_S: Final = {
    "ms": 0.001,
    "s": 1.0,
    None: 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


_LONGEST_DAYS: Final = 36_500


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `1h`, `2d` in seconds. UsageError: something else, or over a century."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(f"no duration {text!r}; write it like 30s, 15m, 1h or 2d")
    found = float(match[1]) * _UNITS_S[match[2]]
    if found > _LONGEST_DAYS * _UNITS_S["d"]:
        raise UsageError(f"the duration {text!r} is too long; at most {_LONGEST_DAYS}d")
    return found


def moment(text: str | None, now: datetime) -> datetime | None:
    """`8h` from `now`, or an ISO date and time (this machine's zone where none is said); aware.

    UsageError: something else, or a moment that has passed.
    """
    if text is None:
        return None
    if _DURATION.fullmatch(text.strip().lower()):
        if (after_s := seconds(text)) == 0:
            raise UsageError(f"{text!r} has passed already; write it like 8h or 2026-12-01T06:00")
        return now + timedelta(seconds=after_s)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"no moment {text!r}; write it like 8h or 2026-12-01T06:00") from None
    at = at.astimezone()
    if at <= now:
        raise UsageError(f"{text!r} has passed; it is {now:%Y-%m-%d %H:%M} UTC now")
    return at
