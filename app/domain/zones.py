"""Wall clocks: IANA zones by name, and the real moment of a time on the wall."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from app.errors import UsageError

_STEP = timedelta(minutes=1)


def zone_named(name: str) -> ZoneInfo:
    """The zone called `name`. UsageError names those that are spelt alike."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = difflib.get_close_matches(name, available_timezones(), 1, 0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"no time zone {name!r}{hint} (names are IANA's, such as Europe/Berlin or UTC)"
        ) from None


def instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clocks of `zone` show `wall` (naive), in UTC.

    A time that comes twice is meant the first time; one that does not exist becomes the first
    minute after the gap.
    """
    at = wall.replace(tzinfo=zone, fold=0)
    while at.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        wall += _STEP
        at = wall.replace(tzinfo=zone, fold=0)
    return at.astimezone(UTC)


def comes_twice(local: datetime) -> bool:
    """Whether the clocks of its zone show this time twice that day. `local` is a real moment."""
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
