"""Which job gets the next place: priority, then fair share by weight, then deadline, then age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job with chunks that could be claimed now.

    `ready` counts those chunks, `in_flight` its live leases.
    """

    job_id: int
    kind: str
    priority: int
    weight: float
    max_in_flight: int | None
    deadline_at: datetime | None
    ready: int
    in_flight: int

    @property
    def room(self) -> int:
        """How many more chunks it may have in flight."""
        if self.max_in_flight is None:
            return self.ready
        return max(0, min(self.ready, self.max_in_flight - self.in_flight))


def _rank(job: Candidate) -> tuple[float, float, float, int]:
    deadline = job.deadline_at.timestamp() if job.deadline_at else float("inf")
    return (-job.priority, (job.in_flight + 1) / job.weight, deadline, job.job_id)


def shared(places: int, jobs: Sequence[Candidate]) -> list[Candidate]:
    """The jobs to ring for, one entry a place, at most `places`.

    Higher priority first; among equals each job's places grow in proportion to its weight.
    """
    chosen: list[Candidate] = []
    waiting = [job for job in jobs if job.room > 0]
    while waiting and len(chosen) < places:
        best = min(waiting, key=_rank)
        chosen.append(best)
        waiting.remove(best)
        after = replace(best, ready=best.ready - 1, in_flight=best.in_flight + 1)
        if after.room > 0:
            waiting.append(after)
    return chosen
