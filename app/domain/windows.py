"""Windows: the hours of the day in which a job may run, by the clocks of a zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from app.domain.zones import instant, zone_named
from app.errors import UsageError

_SHAPE = re.compile(r"(\d{1,2}:\d{2})\s*-\s*(\d{1,2}:\d{2})(?:\s+(\S+))?")


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end` each day, `end` not included; past midnight where `end` is earlier."""

    start: time
    end: time
    timezone: str

    def to_json(self) -> dict[str, Any]:
        """As it is kept with the job."""
        return {
            "from": f"{self.start:%H:%M}",
            "to": f"{self.end:%H:%M}",
            "timezone": self.timezone,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Window:
        """What `to_json` gave."""
        return cls(clock_time(kept["from"]), clock_time(kept["to"]), str(kept["timezone"]))

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.timezone}"


def parsed(text: str, timezone: str = "UTC") -> Window:
    """The window that `22:00-06:00` or `22:00-06:00 Europe/Berlin` says.

    `timezone` is meant where the text names none. UsageError: something else, or no hours at all.
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"no window {text!r}; write it like 22:00-06:00 or '22:00-06:00 Europe/Berlin'"
        )
    zone = match[3] or timezone
    zone_named(zone)
    window = Window(clock_time(match[1]), clock_time(match[2]), zone)
    if window.start == window.end:
        raise UsageError(f"the window {text!r} has no hours; leave it out to run at any time")
    return window


def clock_time(text: str) -> time:
    """`6:00` or `22:30` as a time of day. UsageError: something else."""
    match = re.fullmatch(r"(\d{1,2}):(\d{2})", text.strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise UsageError(f"no time of day {text!r}; write it like 06:00 or 22:30")
    return time(int(match[1]), int(match[2]))


def is_open(window: Window | None, now: datetime) -> bool:
    """Whether a job with this window may run at `now`; without one, always."""
    if window is None:
        return True
    wall = now.astimezone(zone_named(window.timezone)).time()
    if window.start < window.end:
        return window.start <= wall < window.end
    return wall >= window.start or wall < window.end


def opens_at(window: Window, now: datetime) -> datetime:
    """The next time after `now` at which it opens, in UTC."""
    zone = zone_named(window.timezone)
    day = now.astimezone(zone).date()
    while True:
        at = instant(datetime.combine(day, window.start), zone)
        if at > now:
            return at
        day += timedelta(days=1)
