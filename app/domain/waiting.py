"""Why a job that could run does not: it waits for other jobs, or for its hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.jobs import Job
from app.domain.windows import Window, is_open, opens_at
from app.domain.zones import zone_named


@dataclass(frozen=True, slots=True)
class AfterJobs:
    """These jobs have not completed yet."""

    keys: tuple[str, ...]
    code = "after_jobs"

    def __str__(self) -> str:
        more = len(self.keys) - 1
        what = f"job {self.keys[0]}" + (f" and {more} more" if more else "")
        return f"waits for {what}"


@dataclass(frozen=True, slots=True)
class OutsideWindow:
    """It runs again from `until`; `wall` is that time as its own zone's clocks show it."""

    until: datetime
    wall: str
    code = "outside_window"

    def __str__(self) -> str:
        return f"outside its window until {self.wall}"


Waiting = AfterJobs | OutsideWindow


def window_of(job: Job) -> Window | None:
    """The hours in which it may run; None: any."""
    return None if job.window is None else Window.from_json(job.window)


def waiting(job: Job, uncompleted: Sequence[str], now: datetime) -> Waiting | None:
    """Why `job` may not run at `now`; None: it may. `uncompleted` are keys out of its `after`."""
    if uncompleted:
        return AfterJobs(tuple(uncompleted))
    window = window_of(job)
    if window is None or is_open(window, now):
        return None
    until = opens_at(window, now)
    local = until.astimezone(zone_named(window.timezone))
    return OutsideWindow(until, f"{local:%H:%M} {window.timezone}")
