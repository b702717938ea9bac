"""How many places jobs with a deadline need, judged by the pace that one place has made so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Due:
    """A job that must be done by `deadline_at`.

    `place_s` is the time that places have been held for it so far, summed, in seconds; with `done`
    items it gives the pace of one place.
    """

    deadline_at: datetime
    remaining: int
    done: int
    place_s: float


def places_needed(jobs: Sequence[Due], now: datetime) -> int | None:
    """Places that make every deadline, summed over the jobs; None: nothing is due.

    A job that has done nothing yet asks for one place, to find its pace. One whose deadline has
    passed asks for what it would have needed in a last second: the cap is the policy's to keep.
    """
    needed = [_places(job, now) for job in jobs if job.remaining > 0]
    return sum(needed) if needed else None


def _places(job: Due, now: datetime) -> int:
    if job.done == 0 or job.place_s <= 0:
        return 1
    left_s = max(1.0, (job.deadline_at - now).total_seconds())
    return max(1, math.ceil(job.remaining * (job.place_s / job.done) / left_s))
