"""Rules for the work itself: pools, endpoints, leases, jobs, webhooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.domain.examination.findings import (
    Code,
    Finding,
    counted,
    error,
    span,
    warning,
    well,
)
from app.domain.health import Breaker
from app.domain.jobs import PAUSED_BY_HAND, way_on
from app.domain.routing import PRIMARY
from app.domain.waiting import Hold, Waiting

STANDS_S = 60.0
"""Jobs whose work nobody has taken for so long, with places free, stand."""
PEOPLE_WAIT_S = 10.0
LAPSED_S = 30.0
"""A lease that ran out is taken back by a tick within seconds; after so long, by nobody."""
LOADING_S = 3600.0
LATE_S = 120.0
"""A webhook that is due for so long is sent by nobody."""
TRIED = 3
_NAMED = 10


@dataclass(frozen=True, slots=True)
class PoolNow:
    """A declared pool. `decided_s` since its last decision, None: never; `in_force`: it still
    counts. `limit` batch requests are allowed and `batch` are in flight, by `workers` processes;
    `people` in flight and `queued`, the one that waits longest for `people_wait_s`. `jobs_wait_s`:
    how long the job that waits longest has had nothing in flight. `lease_s` since the oldest live
    lease was taken and `call_s` since a batch call last ended, None: there is none. `lapsed` leases
    are over and not taken back, the oldest for `lapsed_s`."""

    name: str
    decided_s: float | None
    in_force: bool
    limit: int
    batch: int
    workers: int
    people: int
    queued: int
    jobs_wait_s: float
    people_wait_s: float
    lease_s: float | None
    call_s: float | None
    lapsed: int
    lapsed_s: float


@dataclass(frozen=True, slots=True)
class EndpointNow:
    """An endpoint's standing; `code` is what its last failure was."""

    name: str
    pool: str
    role: str
    breaker: Breaker
    cooling: bool
    draining: bool
    code: str | None

    @property
    def serves(self) -> bool:
        """Whether it gets work, now or as soon as its cool-down is over."""
        return self.breaker is Breaker.CLOSED and not self.draining


@dataclass(frozen=True, slots=True)
class JobNow:
    """An open job that does not get on by itself. `homeless`: no declared pool is its own."""

    key: str
    state: str
    pool: str
    reason: str | None
    age_s: float
    homeless: bool


@dataclass(frozen=True, slots=True)
class Receiver:
    """Webhooks to one host: given up in the last day, tried in vain so far, and for how long the
    one that is due longest has been due. `status` of the last bad answer, None: there was none."""

    host: str
    given_up: int
    failing: int
    late_s: float
    status: int | None


def decisions(pools: Sequence[PoolNow], declared: Collection[str]) -> list[Finding]:
    """Each declared pool has a decision in force."""
    known = {one.name: one for one in pools}
    found = []
    for name in sorted(declared):
        one = known.get(name)
        if one is not None and one.in_force:
            continue
        age = "never made" if one is None or one.decided_s is None else f"{span(one.decided_s)} old"
        what = f"its decision is {age}, so batch stands at its floor"
        right = "see the findings on ticks, then the log of the control worker"
        found.append(error(Code.DECISIONS, f"pool {name}", what, right))
    limits = ", ".join(f"{one.name} {one.limit}" for one in pools)
    return found or [well(Code.DECISIONS, "pools", f"each has a limit in force: {limits}")]


def endpoints(
    everyone: Sequence[EndpointNow], declared: Collection[str], scaled: Collection[str]
) -> list[Finding]:
    """Each pool has an endpoint that gets work; pools in `scaled` may have none for a while."""
    found = []
    for one in everyone:
        if one.breaker is not Breaker.CLOSED and one.pool in declared:
            code = f" after {one.code}" if one.code else ""
            what = (
                f"its breaker is {one.breaker.value.replace('_', '-')}{code}: it gets probes only"
            )
            right = "see that its server runs; it is used again once a probe is answered"
            found.append(warning(Code.ENDPOINTS, f"endpoint {one.name}", what, right))
    for name in sorted(declared):
        here = [one for one in everyone if one.pool == name]
        serving = [one for one in here if one.serves]
        where = f"pool {name}"
        if not here:
            right = f'add one: [[endpoints]] with pool = "{name}", or giveway endpoints add'
            if name not in scaled:
                found.append(error(Code.ENDPOINTS, where, "it has no endpoint", right))
        elif not serving:
            what = f"none of its {counted(len(here), 'endpoint')} gets work: open or draining"
            right = "see `giveway endpoints list`; start their servers or take back the drain"
            found.append(error(Code.ENDPOINTS, where, what, right))
        elif not any(one.role == PRIMARY for one in serving):
            what = "no primary endpoint gets work; others stand in for those jobs that allow it"
            right = "see `giveway endpoints list`; start the primary servers"
            found.append(warning(Code.ENDPOINTS, where, what, right))
    serve = sum(one.serves for one in everyone)
    what = f"{counted(serve, 'endpoint gets', 'endpoints get')} work"
    return found or [well(Code.ENDPOINTS, "endpoints", what)]


def progress(
    pools: Sequence[PoolNow], serving: Collection[str], call_timeout_s: float
) -> list[Finding]:
    """Workers get on: what waits is taken, and what was taken is worked on.

    Only pools in `serving`, whose endpoints get work: of the others the endpoints are to blame.
    A call takes `call_timeout_s` at most, so a lease in which none has ended for longer is stuck.
    """
    found = []
    for one in pools:
        where = f"pool {one.name}"
        if one.queued and not one.people and one.people_wait_s > PEOPLE_WAIT_S:
            waits = counted(one.queued, "person waits", "people wait")
            what = f"{waits}, the longest for {span(one.people_wait_s)}, and nobody is served"
            right = "see that the interactive worker runs: giveway status"
            found.append(error(Code.PROGRESS, where, what, right))
        if one.name not in serving:
            continue
        if one.in_force and one.limit > 0 and not one.batch and one.jobs_wait_s > STANDS_S:
            what = (
                f"a job has waited {span(one.jobs_wait_s)} with {counted(one.limit, 'place')} free"
            )
            right = "see that the batch worker runs, and `giveway throttle explain`"
            found.append(warning(Code.PROGRESS, where, what, right))
        stuck_s = min(one.lease_s or 0.0, one.call_s if one.call_s is not None else float("inf"))
        if one.batch and stuck_s > 1.5 * call_timeout_s:
            leases = counted(one.batch, "lease is", "leases are")
            what = f"{leases} held, and no call has ended for {span(stuck_s)}"
            right = "see the log of the batch worker; restart it, nothing is lost"
            found.append(warning(Code.PROGRESS, where, what, right))
    workers, batch = sum(one.workers for one in pools), sum(one.batch for one in pools)
    held = f"{counted(batch, 'chunk is', 'chunks are')} worked on"
    by = f" by {counted(workers, 'process', 'processes')}" if workers else ""
    return found or [well(Code.PROGRESS, "work", f"{held}{by}; nothing waits in vain")]


def leases(pools: Sequence[PoolNow]) -> list[Finding]:
    """Leases that ran out were taken back."""
    right = "see that the control worker runs: its ticks take leases back"
    found = [
        error(
            Code.LEASES,
            f"pool {one.name}",
            f"{counted(one.lapsed, 'chunk is', 'chunks are')} overdue, "
            f"the oldest for {span(one.lapsed_s)}",
            right,
        )
        for one in pools
        if one.lapsed and one.lapsed_s > LAPSED_S
    ]
    return found or [well(Code.LEASES, "leases", "no chunk is overdue")]


def jobs(held: Sequence[JobNow]) -> list[Finding]:
    """Jobs that wait for somebody: paused with a reason, half loaded, or of a pool that is gone.
    What a person paused is no fault."""
    found, by_hand = [], 0
    for one in held:
        where = f"job {one.key}"
        if one.homeless:
            what = f"its pool {one.pool!r} is not declared, so nothing of it is claimed"
            found.append(error(Code.JOBS, where, what, "declare the pool, or cancel the job"))
        elif one.state == "loading":
            what = f"still loading after {span(one.age_s)}: its submission was cut off"
            found.append(warning(Code.JOBS, where, what, "submit it again, or cancel it"))
        elif one.reason not in (None, PAUSED_BY_HAND):
            found.append(warning(Code.JOBS, where, f"paused: {one.reason}", way_on(one.key)))
        else:
            by_hand += 1
    more = len(found) - _NAMED
    if more > 0:
        right = "giveway jobs list --state paused"
        found = [*found[:_NAMED], warning(Code.JOBS, "jobs", f"{more} more like these", right)]
    what = f"{counted(by_hand, 'job')} paused by hand" if by_hand else "none waits for somebody"
    return found or [well(Code.JOBS, "jobs", what)]


def waits(stuck: Sequence[tuple[str, Waiting]]) -> list[Finding]:
    """Jobs, by key, that could run and do not, for what may not pass by itself. What holds many is
    told once, with the first of them."""
    by_code: dict[str, list[tuple[str, Waiting]]] = {}
    for key, why in stuck:
        by_code.setdefault(why.words, []).append((key, why))
    found = []
    for held in by_code.values():
        (key, why), more = held[0], len(held) - 1
        where = f"job {key}" + (f" and {more} more" if more else "")
        right = _RIGHT.get(why.code, "giveway throttle explain")
        found.append(warning(Code.WAITS, where, f"waits: {why.words} ({why.code})", right))
    return found or [well(Code.WAITS, "jobs that wait", "none waits in vain")]


_RIGHT = {
    Hold.POOL_GONE: "declare the pool, then giveway restart; or cancel the job",
    Hold.NO_WORKER: "start a batch worker: giveway up, or celery -A app worker -Q batch",
    Hold.UNKNOWN_KIND: "giveway restart, or start the batch workers anew",
    Hold.UNKNOWN_MODEL: "giveway restart, or start the batch workers anew",
    Hold.NO_ENDPOINT: "declare an endpoint for its model, or giveway endpoints add",
    Hold.ENDPOINTS_AWAY: "see giveway endpoints list; start their servers",
    Hold.NO_TICKS: "see that the control worker and beat run",
}


def keys(
    unset: Sequence[tuple[str, str, str]], own: Mapping[str, str], *, told: bool
) -> list[Finding]:
    """(worker, endpoint, variable) of each endpoint's key that a running worker lacks. Where none
    has `told` of itself, `own`: what this command lacks, by endpoint."""
    if not told:
        unset = [("this command", endpoint, variable) for endpoint, variable in own.items()]
    by_endpoint: dict[tuple[str, str], set[str]] = {}
    for worker, endpoint, variable in unset:
        by_endpoint.setdefault((endpoint, variable), set()).add(worker.partition("#")[0])
    found = [
        error(
            Code.KEYS,
            f"endpoint {endpoint}",
            f"{variable} (its api_key_env) is not set for {', '.join(sorted(workers))}; jobs that "
            "need this endpoint pause",
            f"set {variable} where the workers run, then giveway restart",
        )
        for (endpoint, variable), workers in sorted(by_endpoint.items())
    ]
    return found or [well(Code.KEYS, "keys", "each endpoint that names one has its key")]


def webhooks(receivers: Sequence[Receiver]) -> list[Finding]:
    """What was to be told was heard."""
    found = []
    for one in receivers:
        where = f"webhooks to {one.host}"
        answer = "" if one.status is None else f"; its last answer was {one.status}"
        if one.given_up or one.failing:
            what = f"{one.given_up} given up in the last day, {one.failing} tried in vain{answer}"
            right = "see that the receiver runs and takes the signature"
            found.append(warning(Code.WEBHOOKS, where, what, right))
        elif one.late_s > LATE_S:
            what = f"one is due for {span(one.late_s)} and nobody sends it"
            right = "see that the control worker runs: its ticks send them"
            found.append(warning(Code.WEBHOOKS, where, what, right))
    return found or [well(Code.WEBHOOKS, "webhooks", "none is late or given up")]
