"""Which job gets the next place.

Tenants share alike; within one, the higher priority goes first, and equals share by weight: each
has the whole places of its share, and what is left over goes to whoever has used least for its
weight lately, so that over time the shares are the weights even where places are few. Where that
leaves a tie, as equal weights do with a single place, the earlier deadline goes first, and then
whoever has waited longer for its turn, so that nobody starves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil, floor, inf

from app.domain.jobs import NO_MODEL, Failover


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job with chunks that could be claimed now.

    `ready` counts those chunks, `in_flight` its live leases, `tenant_in_flight` those of all jobs
    of its tenant. `waited_s`: since a chunk of it was last leased; infinite: none was yet.
    `tenant_waited_s`: the same of its tenant. `used_s`: what its calls took lately, the older the
    less; None: it made none, or nobody looked.
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
    used_s: float | None = None
    key: str = ""
    model: str = NO_MODEL
    failover: Failover = Failover.WAIT

    @property
    def room(self) -> int:
        """How many more chunks it may have in flight."""
        if self.max_in_flight is None:
            return self.ready
        return max(0, min(self.ready, self.max_in_flight - self.in_flight))


@dataclass(slots=True)
class _Peers:
    """Jobs of one tenant and priority that wait for a place."""

    in_flight: int = 0
    weight: float = 0.0
    least: float = inf
    """What the one has used for its weight that has used least."""

    def add(self, job: Candidate) -> None:
        self.in_flight += job.in_flight
        self.weight += job.weight
        if job.used_s is not None:
            self.least = min(self.least, job.used_s / job.weight)

    def standing(self, job: Candidate) -> int:
        """With one place more among them: 0 it is still short of its share's whole places,
        1 the place is part of its share, 2 it has its share."""
        share = (self.in_flight + 1) * job.weight / self.weight
        places = job.in_flight + 1
        return (places > floor(share + _EXACT)) + (places > ceil(share - _EXACT))

    def used(self, job: Candidate) -> float:
        """For its weight. A newcomer does not catch up what others had before it came."""
        return self.least if job.used_s is None else job.used_s / job.weight


_EXACT = 1e-9


def uneven(jobs: Sequence[Candidate]) -> bool:
    """Whether jobs of one tenant and priority differ in weight, so that `used_s` counts."""
    weights: dict[tuple[str, int], float] = {}
    return any(
        weights.setdefault((job.tenant, job.priority), job.weight) != job.weight for job in jobs
    )


def _rank(
    job: Candidate, tenants: Mapping[str, tuple[int, float]], peers: _Peers
) -> tuple[float, ...]:
    held, waited_s = tenants[job.tenant]
    deadline = job.deadline_at.timestamp() if job.deadline_at else inf
    share, turn = job.in_flight / job.weight, job.waited_s * job.weight
    by_weight = (peers.standing(job), peers.used(job), share)
    return (held, -waited_s, -job.priority, *by_weight, deadline, -turn, job.job_id)


def shared(places: int, jobs: Sequence[Candidate]) -> list[Candidate]:
    """The jobs to ring for, one entry a place, at most `places`.

    The tenant with the fewest places is served next. Within one the higher priority goes first, and
    among equals each job's places grow in proportion to its weight.
    """
    chosen: list[Candidate] = []
    tenants = {job.tenant: (job.tenant_in_flight, job.tenant_waited_s) for job in jobs}
    waiting = [job for job in jobs if job.room > 0]
    while waiting and len(chosen) < places:
        best = _first(waiting, tenants)
        chosen.append(best)
        tenants[best.tenant] = (tenants[best.tenant][0] + 1, 0.0)
        waiting.remove(best)
        after = replace(best, ready=best.ready - 1, in_flight=best.in_flight + 1, waited_s=0.0)
        if after.room > 0:
            waiting.append(after)
    return chosen


def _first(waiting: Sequence[Candidate], tenants: Mapping[str, tuple[int, float]]) -> Candidate:
    peers: defaultdict[tuple[str, int], _Peers] = defaultdict(_Peers)
    for job in waiting:
        peers[job.tenant, job.priority].add(job)
    return min(waiting, key=lambda job: _rank(job, tenants, peers[job.tenant, job.priority]))
