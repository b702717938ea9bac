"""What a report says. Its JSON form is these fields, by name; see docs/reference/report.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Percentiles:
    """None where nobody asked."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class PeopleReport:
    """Interactive requests that ended. `on_target`: the share that met the pool's targets, of those
    that can be held to them; times run from submission."""

    requests: int = 0
    failed: int = 0
    on_target: float | None = None
    queue_ms: Percentiles = Percentiles()
    first_token_ms: Percentiles = Percentiles()
    whole_ms: Percentiles = Percentiles()


@dataclass(frozen=True, slots=True)
class PeoplePoint:
    """People in one column of time."""

    column: int
    requests: int
    on_target: float | None
    first_token_p95_ms: float | None
    whole_p95_ms: float | None


@dataclass(frozen=True, slots=True)
class LimitPoint:
    """The last decision of a column of time."""

    column: int
    limit: int
    pressure: float
    reason: str


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """Batch in one column of time: items that were answered."""

    column: int
    items: int
    items_per_s: float


@dataclass(frozen=True, slots=True)
class BacklogReport:
    """Work of jobs that may run, without a result yet: it takes `requests` to do the `items`."""

    jobs: int
    items: int
    requests: int
    jobs_wait_s: float
    """How long the job that waits longest has had work and nothing in flight."""
    people_wait_s: float
    """How long the request that waits longest has had no place."""


@dataclass(frozen=True, slots=True)
class PoolReport:
    """A pool as it is, and its people and limits over the span."""

    name: str
    total: int
    reserve: int
    limit: int
    reason: str
    pressure: float | None
    batch_in_flight: int
    interactive_in_flight: int
    interactive_waiting: int
    wanted: int | None
    """Endpoints that automatic scaling wants; None: it does not scale."""
    backlog: BacklogReport
    target_p95_ms: float
    people: PeopleReport
    people_over_time: Sequence[PeoplePoint]
    limits: Sequence[LimitPoint]
    batch_over_time: Sequence[BatchPoint] = ()


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """An endpoint. Places, state and what it has in flight are as of now; the rest is of the span.

    `utilisation`: seconds of requests in flight over seconds of its places. One that is `removed`
    has no places any more.
    """

    name: str
    pool: str
    kind: str | None
    role: str | None
    state: str
    max_concurrency: int | None
    batch_in_flight: int
    interactive_in_flight: int
    utilisation: float | None
    utilisation_over_time: Sequence[float] | None
    finished: int
    failed: int
    failure_rate: float | None
    mean_ms: float | None
    prompt_tokens: int
    completion_tokens: int
    rough_tokens: int
    """So many of these were guessed: neither did the server tell them, nor could they be counted.
    """
    money: float
    priced: bool = False
    """Whether its settings declare what tokens cost there."""

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job that was not over when the span began."""

    id: int
    key: str
    kind: str
    pool: str
    model: str
    state: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime | None
    total: int
    done: int
    failed: int
    in_flight: int
    prompt_tokens: int
    completion_tokens: int
    money: float
    failed_by_code: Mapping[str, int]
    waits: str | None = None
    """Why nothing of it is worked on now; None: something is, or it is over."""
    waits_code: str | None = None

    @property
    def share(self) -> float:
        """Of the items, those with a result; 1 where there are none."""
        return (self.done + self.failed) / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """How often a code came: at calls of `batch`, at `interactive` requests, as a `detour` of one
    (it went on to another endpoint), or as the final result of an `item` of the jobs listed (those
    over all of the job's time)."""

    whose: str
    code: str
    count: int
    over_time: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Report:
    """The last `since_s` seconds up to `at`; what is over time is in columns of `column_s`."""

    at: datetime
    since_s: float
    column_s: float
    pools: Sequence[PoolReport]
    endpoints: Sequence[EndpointReport]
    jobs: Sequence[JobReport]
    errors: Sequence[ErrorReport]
    events: Sequence[Mapping[str, Any]]
    scaling: Sequence[Mapping[str, Any]]
    """The newest events of automatic scaling, which others in `events` may have crowded out."""

    @property
    def tokens(self) -> int:
        """Of all endpoints."""
        return sum(one.tokens for one in self.endpoints)

    @property
    def rough_tokens(self) -> int:
        """Those of them that were guessed."""
        return sum(one.rough_tokens for one in self.endpoints)

    @property
    def money(self) -> float:
        """Of all endpoints, by their prices."""
        return sum(one.money for one in self.endpoints)

    @property
    def priced(self) -> bool:
        """Whether some endpoint has prices; without any, money says nothing."""
        return any(one.priced for one in self.endpoints)
