"""Names that people give to what is kept: keys of jobs, schedules."""

from __future__ import annotations

import re

from app.errors import UsageError

MOST_OF_A_KEY, MOST_OF_A_SCHEDULE = 200, 100
"""Characters. A schedule's name is part of its jobs' keys."""

_SHOWN = 60
_ODD = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def check_name(what: str, name: str, most: int) -> None:
    """UsageError: `name` is empty, has more than `most` characters, or some that nobody can see."""
    shown = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"
    if not 1 <= len(name) <= most:
        raise UsageError(f"{what} {shown!r} has {len(name):,} characters; it wants 1 to {most}")
    if _ODD.search(name) is not None:
        raise UsageError(f"{what} {shown!r} has a control character in it")
    if name != name.strip():
        raise UsageError(f"{what} {shown!r} begins or ends with a blank")
