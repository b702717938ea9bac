"""Which job gets the next place.

Tenants share alike; within one, the higher priority goes first, and equals share by weight. Where
that leaves a tie, as it always does with a single place, the earlier deadline goes first, and then
whoever has waited longer for its turn, so that nobody starves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job with chunks that could be claimed now.

    `ready` counts those chunks, `in_flight` its live leases, `tenant_in_flight` those of all jobs
    of its tenant. `waited_s`: since a chunk of it was last leased; infinite: none was yet.
    `tenant_waited_s`: the same of its tenant.
    """

    job_id: int
    kind: str
    priority: int
    weight: float
    max_in_flight: int | None
    deadline_at: datetime | None
    ready: int
    in_flight: int
    tenant: str = "default"
    tenant_in_flight: int = 0
    waited_s: float = inf
    tenant_waited_s: float = inf

    @property
    def room(self) -> int:
        """How many more chunks it may have in flight."""
        if self.max_in_flight is None:
            return self.ready
        return max(0, min(self.ready, self.max_in_flight - self.in_flight))


def _rank(job: Candidate, tenants: Mapping[str, tuple[int, float]]) -> tuple[float, ...]:
    held, waited_s = tenants[job.tenant]
    deadline = job.deadline_at.timestamp() if job.deadline_at else inf
    share, turn = job.in_flight / job.weight, job.waited_s * job.weight
    return (held, -waited_s, -job.priority, share, deadline, -turn, job.job_id)


def shared(places: int, jobs: Sequence[Candidate]) -> list[Candidate]:
    """The jobs to ring for, one entry a place, at most `places`.

    The tenant with the fewest places is served next. Within one the higher priority goes first, and
    among equals each job's places grow in proportion to its weight.
    """
    chosen: list[Candidate] = []
    tenants = {job.tenant: (job.tenant_in_flight, job.tenant_waited_s) for job in jobs}
    waiting = [job for job in jobs if job.room > 0]
    while waiting and len(chosen) < places:
        best = min(waiting, key=lambda job: _rank(job, tenants))
        chosen.append(best)
        tenants[best.tenant] = (tenants[best.tenant][0] + 1, 0.0)
        waiting.remove(best)
        after = replace(best, ready=best.ready - 1, in_flight=best.in_flight + 1, waited_s=0.0)
        if after.room > 0:
            waiting.append(after)
    return chosen
