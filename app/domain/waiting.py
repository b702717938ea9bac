"""Why a job that could run does not: one function of everything that may hold it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf

from app.domain.jobs import NO_MODEL, OPEN, PAUSED_BY_HAND, Job, JobState
from app.domain.windows import Window, is_open, opens_at
from app.domain.zones import zone_named


class Hold(StrEnum):
    """What holds a job, in the order in which they are looked at; see `MEANINGS`."""

    LOADING = "loading"
    PAUSED_BY_HAND = "paused_by_hand"
    PAUSED = "paused"
    AFTER_JOBS = "after_jobs"
    OUTSIDE_WINDOW = "outside_window"
    FINISHING = "finishing"
    POOL_GONE = "pool_gone"
    NO_WORKER = "no_worker"
    UNKNOWN_KIND = "unknown_kind"
    UNKNOWN_MODEL = "unknown_model"
    NO_ENDPOINT = "no_endpoint"
    ENDPOINTS_AWAY = "endpoints_away"
    RATE_BUDGET = "rate_budget"
    RETRY_LATER = "retry_later"
    OPERATOR_LIMIT = "operator_limit"
    LIMIT_REACHED = "limit_reached"
    PLACES_TAKEN = "places_taken"
    ENDPOINTS_FULL = "endpoints_full"
    TURN = "turn"
    NO_TICKS = "no_ticks"
    RINGING = "ringing"


MEANINGS: dict[Hold, str] = {
    Hold.LOADING: "Its submission is still loading its items, or was cut off; submitting it again "
    "takes over.",
    Hold.PAUSED_BY_HAND: "A person paused it; `giveway jobs resume` lets it run.",
    Hold.PAUSED: "It paused by itself, for the reason that stands there: put that right, then "
    "resume it.",
    Hold.AFTER_JOBS: "It comes after jobs that have not completed (`--after`).",
    Hold.OUTSIDE_WINDOW: "These are not its hours (`--window`).",
    Hold.FINISHING: "Every item has its result; the next tick completes it.",
    Hold.POOL_GONE: "The settings declare no pool of that name any more.",
    Hold.NO_WORKER: "No batch worker has told of itself for 20 s.",
    Hold.UNKNOWN_KIND: "No running batch worker knows its kind: it was declared after they "
    "started.",
    Hold.UNKNOWN_MODEL: "No running batch worker knows an endpoint for its model: it was declared "
    "after they started.",
    Hold.NO_ENDPOINT: "No endpoint of its pool serves its model.",
    Hold.ENDPOINTS_AWAY: "No endpoint that serves its model gets work: open, cooling or draining.",
    Hold.RATE_BUDGET: "The endpoints' rate budgets have nothing left for batch at the moment.",
    Hold.RETRY_LATER: "What is left of it failed before, and is tried again at a later time.",
    Hold.OPERATOR_LIMIT: "An operator holds the pool's limit, and it is reached.",
    Hold.LIMIT_REACHED: "Other jobs have all that the throttle lets in now.",
    Hold.PLACES_TAKEN: "People and other jobs have every place of the pool.",
    Hold.ENDPOINTS_FULL: "The endpoints that serve its model have no place free.",
    Hold.TURN: "Other jobs come first by tenant, priority, weight, deadline or turn.",
    Hold.NO_TICKS: "Nothing is decided and nobody rings: the control worker or beat is away.",
    Hold.RINGING: "A place is free; a worker takes the job up within a tick.",
}
"""What each means, and what to do about it; the reference's table."""

NEEDS_SOMEBODY = frozenset(
    {
        Hold.POOL_GONE,
        Hold.NO_WORKER,
        Hold.UNKNOWN_KIND,
        Hold.UNKNOWN_MODEL,
        Hold.NO_ENDPOINT,
        Hold.ENDPOINTS_AWAY,
        Hold.NO_TICKS,
    }
)
"""What holds a job that may run, and may not pass by itself: a person should look."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why nothing of a job is worked on: `code`, and the sentence that a person reads."""

    code: Hold
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class ChunksNow:
    """Chunks of a job: to be had now, leased, and to be had from `later_at` on."""

    ready: int = 0
    in_flight: int = 0
    later: int = 0
    later_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EndpointNow:
    """An endpoint that serves the job. `word` is how it stands (`ok`, `open`, `cooling` …), `code`
    its last failure, `back_at` when it is tried again; `resting`: its rate budget has nothing left
    for batch."""

    name: str
    word: str = "ok"
    usable: bool = True
    code: str | None = None
    back_at: datetime | None = None
    resting: bool = False


@dataclass(frozen=True, slots=True)
class PoolNow:
    """The pool of the job. `limit` is what a claim would meet now and `reason` why it is so;
    `operator_until`: an operator holds it so long. `has_room`: an endpoint that serves the job has
    a place free. `first`: another job that has the places that are free, by its key; None: this
    one is among those that are rung for. `undecided_s`: no decision has been in force for so long,
    infinite if there never was one; None: one is.
    """

    limit: int
    reason: str
    total: int
    batch_in_flight: int
    people_in_flight: int
    endpoints: tuple[EndpointNow, ...]
    operator_until: datetime | None = None
    has_room: bool = True
    first: str | None = None
    undecided_s: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that may hold a job. `uncompleted` are keys out of its `after`; `pool` None: none is
    declared. `workers` batch workers run, of which some know its kind and its model; `kinds` and
    `models` are what they know, for who must put it right."""

    now: datetime
    chunks: ChunksNow = ChunksNow()
    uncompleted: tuple[str, ...] = ()
    pool: PoolNow | None = None
    workers: int = 0
    kinds: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


def window_of(job: Job) -> Window | None:
    """The hours in which it may run; None: any."""
    return None if job.window is None else Window.from_json(job.window)


def held_by_conditions(job: Job, uncompleted: Sequence[str], now: datetime) -> Waiting | None:
    """Why `job` may not be claimed at `now`, by its own conditions; None: it may."""
    if uncompleted:
        more = len(uncompleted) - 1
        what = f"job {uncompleted[0]}" + (f" and {more} more" if more else "")
        return Waiting(Hold.AFTER_JOBS, f"waits for {what}")
    window = window_of(job)
    if window is None or is_open(window, now):
        return None
    return Waiting(Hold.OUTSIDE_WINDOW, f"outside its window until {_opening(window, now)}")


def waiting(job: Job, facts: Facts) -> Waiting | None:
    """Why nothing of an open job is worked on; None: it is, or the job is over."""
    if job.state is JobState.LOADING:
        return Waiting(Hold.LOADING, "its items are being loaded, or its submission was cut off")
    if job.state is JobState.PAUSED:
        if job.reason in (None, PAUSED_BY_HAND):
            return Waiting(Hold.PAUSED_BY_HAND, f"paused; giveway jobs resume {job.key}")
        return Waiting(Hold.PAUSED, f"paused by itself: {job.reason}")
    if job.state not in OPEN:
        return None
    held = held_by_conditions(job, facts.uncompleted, facts.now)
    if held is not None:
        return held
    chunks = facts.chunks
    if chunks.in_flight:
        return None
    if not chunks.ready and not chunks.later:
        return Waiting(Hold.FINISHING, "every item has its result; the next tick completes it")
    return _by_pool(job, facts) or _by_places(job, facts)


def _by_pool(job: Job, facts: Facts) -> Waiting | None:
    """What nobody can do, or cannot do now however many places are free."""
    pool = facts.pool
    if pool is None:
        return Waiting(
            Hold.POOL_GONE,
            f"its pool {job.pool!r} is not declared; declare it, then giveway restart",
        )
    if not facts.workers:
        return Waiting(Hold.NO_WORKER, "no batch worker runs; see giveway status")
    if job.kind not in facts.kinds:
        known = ", ".join(sorted(facts.kinds)) or "none"
        return Waiting(
            Hold.UNKNOWN_KIND,
            f"no running batch worker knows kind {job.kind!r} (they know {known}); "
            "giveway restart makes them read the settings again",
        )
    if job.model != NO_MODEL and job.model not in facts.models:
        known = ", ".join(sorted(facts.models)) or "none"
        return Waiting(
            Hold.UNKNOWN_MODEL,
            f"no running batch worker knows model {job.model!r} in pool {job.pool!r} (they know "
            f"{known}); giveway restart makes them read the settings again",
        )
    if job.model != NO_MODEL:
        held = _by_endpoints(job, pool.endpoints)
        if held is not None:
            return held
    if not facts.chunks.ready:
        return _later(facts)
    return None


def _by_endpoints(job: Job, endpoints: Sequence[EndpointNow]) -> Waiting | None:
    if not endpoints:
        return Waiting(
            Hold.NO_ENDPOINT, f"no endpoint of pool {job.pool!r} serves model {job.model!r}"
        )
    if any(one.usable for one in endpoints):
        return None
    if all(one.resting for one in endpoints):
        names = ", ".join(repr(one.name) for one in endpoints)
        return Waiting(
            Hold.RATE_BUDGET, f"the rate budget of endpoint {names} has nothing left for batch now"
        )
    told = ", ".join(map(_stands, endpoints))
    return Waiting(
        Hold.ENDPOINTS_AWAY,
        f"no endpoint that serves {job.model!r} is in service: {told}; see giveway endpoints list",
    )


def _stands(one: EndpointNow) -> str:
    word = "out of its rate budget" if one.resting else one.word
    after = f" after {one.code}" if one.code and word != "draining" else ""
    until = f" until {_utc(one.back_at)}" if one.back_at and not one.resting else ""
    return f"{one.name} is {word}{after}{until}"


def _later(facts: Facts) -> Waiting:
    chunks = facts.chunks
    what = "its last chunk is" if chunks.later == 1 else f"its {chunks.later:,} chunks are"
    at = "" if chunks.later_at is None else f" at {_utc(chunks.later_at)}"
    return Waiting(Hold.RETRY_LATER, f"{what} tried again{at}, after an attempt that failed")


def _by_places(job: Job, facts: Facts) -> Waiting:
    """Why it has none of the places."""
    pool = facts.pool
    assert pool is not None
    flying = f"{pool.batch_in_flight} batch in flight"
    if pool.batch_in_flight >= pool.limit:
        if pool.operator_until is not None:
            return Waiting(
                Hold.OPERATOR_LIMIT,
                f"an operator holds pool {job.pool!r} at {pool.limit} until "
                f"{_utc(pool.operator_until)}, and {flying}; giveway throttle clear",
            )
        return Waiting(
            Hold.LIMIT_REACHED,
            f"pool {job.pool!r} lets {pool.limit} in ({pool.reason}), and {flying}",
        )
    if pool.batch_in_flight + pool.people_in_flight >= pool.total:
        return Waiting(
            Hold.PLACES_TAKEN,
            f"all {pool.total} places of pool {job.pool!r} are taken: "
            f"{pool.people_in_flight} by people, {pool.batch_in_flight} by batch",
        )
    if not pool.has_room:
        return Waiting(
            Hold.ENDPOINTS_FULL, f"the endpoints that serve {job.model!r} have no place free"
        )
    if pool.first is not None:
        return Waiting(Hold.TURN, f"job {pool.first} comes first in pool {job.pool!r}")
    if pool.undecided_s is not None:
        ever = pool.undecided_s == inf
        since = "was ever decided" if ever else f"is decided since {pool.undecided_s:,.0f} s"
        return Waiting(
            Hold.NO_TICKS,
            f"nothing {since}, so nobody rings for it: do the control worker and beat run?",
        )
    return Waiting(Hold.RINGING, "a place is free; a worker takes it up within a tick")


def _opening(window: Window, now: datetime) -> str:
    """When it opens, as its zone's clocks show it, and on which day where that is not today."""
    zone = zone_named(window.timezone)
    local, today = opens_at(window, now).astimezone(zone), now.astimezone(zone).date()
    days = (local.date() - today).days
    day = {0: "", 1: " tomorrow"}.get(days, f" on {local:%Y-%m-%d}")
    return f"{local:%H:%M} {window.timezone}{day}"


def _utc(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"
