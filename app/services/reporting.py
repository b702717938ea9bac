"""The report: everything that happened lately, from one snapshot of the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.events import SCALING
from app.domain.reports import (
    BacklogReport,
    BatchPoint,
    EndpointReport,
    ErrorReport,
    JobReport,
    LimitPoint,
    PeoplePoint,
    PeopleReport,
    Percentiles,
    PoolReport,
    Report,
)
from app.domain.routing import EndpointSpec
from app.domain.waiting import Waiting
from app.services.pools import Pool, Pools
from app.services.pools.now import pool_now
from app.services.waiting import requests_in
from app.services.waits import reasons
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.event_store import EventStore
from app.storage.gauge_store import Backlog, EndpointGauges, GaugeStore, PoolGauges
from app.storage.job_store import JobStore
from app.storage.report_store import ReportStore, Row, Span
from app.storage.scaler_store import ScalerStore

COLUMNS = 60
_SHORTEST_S = 60.0
"""A report that begins with the first thing that happened is of so long at least."""
_BEFORE_S = 1.0
"""So much earlier, so that the first thing itself is in it."""
_MOST_JOBS = 100
_MOST_EVENTS = 500
_MOST_OF_SCALING = 100


@dataclass(frozen=True, slots=True)
class _Read:
    """What the statements gave."""

    span: Span
    pools: Mapping[str, PoolGauges]
    endpoints: Sequence[EndpointGauges]
    backlog: Mapping[str, Sequence[Backlog]]
    wanted: Mapping[str, int]
    people: Sequence[Row]
    limits: Sequence[Row]
    items: Sequence[Row]
    priced: frozenset[str]
    calls: Sequence[Row]
    busy: Sequence[Row]
    errors: Sequence[Row]
    jobs: Sequence[Row]
    why: Mapping[int, Waiting]
    failed: Sequence[Row]
    events: Sequence[Row]
    scaling: Sequence[Row]


class Reporting:
    """The use case behind `giveway report`."""

    def __init__(self, database: Database, pools: Pools, micro_batch_items: int) -> None:
        self._database = database
        self._pools = pools
        self._micro_batch_items = micro_batch_items

    def report(self, since_s: float, *, from_first: bool = False) -> Report:
        """The last `since_s` seconds; `from_first`: from the first thing on that happened in them.
        The number of statements does not depend on what is there."""
        read = self._read(since_s, from_first=from_first)
        return Report(
            at=read.span.until,
            since_s=(read.span.until - read.span.since).total_seconds(),
            column_s=read.span.column_s,
            pools=[
                self._pool(read, pool)
                for name, pool in self._pools.by_name.items()
                if name in read.pools
            ],
            endpoints=_endpoints(read),
            jobs=_jobs(read),
            errors=_errors(read),
            events=list(read.events),
            scaling=list(read.scaling),
        )

    def _read(self, since_s: float, *, from_first: bool) -> _Read:
        with self._database.snapshot() as tx:
            store, gauges = ReportStore(tx), GaugeStore(tx)
            first_s = store.first_s(since_s) if from_first else None
            if first_s is not None:
                since_s = min(since_s, max(first_s + _BEFORE_S, _SHORTEST_S))
            span = store.span(since_s, COLUMNS, list(self._pools.by_name))
            jobs = store.jobs(span, _MOST_JOBS)
            pools, endpoints = gauges.pools(), gauges.endpoints()
            targets = [
                pool_now(pool, pools[name], endpoints).targets
                for name, pool in self._pools.by_name.items()
                if name in pools
            ]
            return _Read(
                span=span,
                pools=pools,
                endpoints=endpoints,
                backlog=gauges.backlog(),
                wanted={pool: one.wanted for pool, one in ScalerStore(tx).all().items()},
                people=store.people(span, targets),
                limits=store.limits(span),
                items=store.items(span),
                priced=self._priced(EndpointStore(tx).added(draining=True)),
                calls=store.endpoints(span),
                busy=store.busy(span),
                errors=store.errors(span),
                jobs=jobs,
                why=reasons(tx, self._pools, JobStore(tx).all_of([job["id"] for job in jobs])),
                failed=store.failed_items([job["id"] for job in jobs if job["failed"]]),
                events=EventStore(tx).recent(since_s, _MOST_EVENTS),
                scaling=EventStore(tx).recent(since_s, _MOST_OF_SCALING, SCALING),
            )

    def _priced(self, added: Sequence[EndpointSpec]) -> frozenset[str]:
        """Names of the endpoints, declared or `added`, that have prices."""
        specs = [*self._pools.endpoints, *added]
        return frozenset(spec.name for spec in specs if spec.input_price or spec.output_price)

    def _pool(self, read: _Read, pool: Pool) -> PoolReport:
        now = read.pools[pool.name]
        here = pool_now(pool, now, read.endpoints)
        backlog = read.backlog.get(pool.name, ())
        mine = [row for row in read.people if row["pool"] == pool.name]
        return PoolReport(
            name=pool.name,
            total=here.bounds.total,
            reserve=here.bounds.reserve,
            limit=here.limit,
            reason=now.reason,
            pressure=now.pressure,
            batch_in_flight=now.batch,
            interactive_in_flight=now.interactive,
            interactive_waiting=now.queued,
            wanted=read.wanted.get(pool.name),
            backlog=BacklogReport(
                jobs=sum(one.jobs for one in backlog),
                items=sum(one.items for one in backlog),
                requests=requests_in(backlog, self._micro_batch_items),
                jobs_wait_s=now.jobs_wait_s,
                people_wait_s=now.people_wait_s,
            ),
            target_p95_ms=here.targets.target_ms,
            people=_people(next((row for row in mine if row["part"] is None), None)),
            people_over_time=[_point(row) for row in mine if row["part"] is not None],
            limits=[
                LimitPoint(row["part"], row["limit"], row["pressure"], row["reason"])
                for row in read.limits
                if row["pool"] == pool.name
            ],
            batch_over_time=[
                BatchPoint(row["part"], row["items"], row["items"] / read.span.column_s)
                for row in read.items
                if row["pool"] == pool.name
            ],
        )


def _people(row: Row | None) -> PeopleReport:
    if row is None:
        return PeopleReport()
    return PeopleReport(
        requests=row["requests"],
        failed=row["failed"],
        on_target=row["on_target"],
        queue_ms=_percentiles(row["queue_ms"]),
        first_token_ms=_percentiles(row["first_token_ms"]),
        whole_ms=_percentiles(row["whole_ms"]),
    )


def _percentiles(values: Sequence[float] | None) -> Percentiles:
    return Percentiles(*values) if values else Percentiles()


def _point(row: Row) -> PeoplePoint:
    first, whole = _percentiles(row["first_token_ms"]), _percentiles(row["whole_ms"])
    return PeoplePoint(row["part"], row["requests"], row["on_target"], first.p95, whole.p95)


def _endpoints(read: _Read) -> list[EndpointReport]:
    done = {row["endpoint"]: row for row in read.calls}
    busy: dict[str, dict[int, float]] = defaultdict(dict)
    for row in read.busy:
        busy[row["endpoint"]][row["part"]] = row["seconds"]
    known = {one.name: one for one in read.endpoints}
    return [
        _endpoint(
            name,
            known.get(name),
            done.get(name),
            busy.get(name, {}),
            read.span,
            priced=name in read.priced,
        )
        for name in [*known, *(name for name in done if name not in known)]
    ]


def _endpoint(
    name: str,
    now: EndpointGauges | None,
    done: Row | None,
    busy: Mapping[int, float],
    span: Span,
    *,
    priced: bool,
) -> EndpointReport:
    places = now.max_concurrency if now else None
    finished, failed = (done["finished"], done["failed"]) if done else (0, 0)
    over_time = (
        None
        if places is None
        else [
            min(1.0, busy.get(part, 0.0) / (places * span.column_s)) for part in range(span.columns)
        ]
    )
    return EndpointReport(
        name=name,
        pool=now.pool if now else (done["pool"] if done else ""),
        kind=now.kind if now else None,
        role=now.role if now else None,
        state=now.health.word if now else "removed",
        max_concurrency=places,
        batch_in_flight=now.batch if now else 0,
        interactive_in_flight=now.interactive if now else 0,
        utilisation=None if over_time is None else sum(over_time) / span.columns,
        utilisation_over_time=over_time,
        finished=finished,
        failed=failed,
        failure_rate=failed / (finished + failed) if finished + failed else None,
        mean_ms=done["mean_ms"] if done else None,
        prompt_tokens=done["prompt_tokens"] if done else 0,
        completion_tokens=done["completion_tokens"] if done else 0,
        rough_tokens=done["rough_tokens"] if done else 0,
        money=done["money"] if done else 0.0,
        priced=priced,
    )


def _jobs(read: _Read) -> list[JobReport]:
    codes: dict[int, dict[str, int]] = defaultdict(dict)
    for row in read.failed:
        codes[row["job_id"]][row["code"]] = row["n"]
    return [
        JobReport(
            **row,
            failed_by_code=codes.get(row["id"], {}),
            waits=None if (why := read.why.get(row["id"])) is None else why.words,
            waits_code=None if why is None else why.code.value,
        )
        for row in read.jobs
    ]


def _errors(read: _Read) -> list[ErrorReport]:
    parts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for row in read.errors:
        parts[row["whose"], row["code"]][row["part"]] = row["n"]
    found = [
        ErrorReport(whose, code, sum(n.values()), [n.get(p, 0) for p in range(read.span.columns)])
        for (whose, code), n in parts.items()
    ]
    items: dict[str, int] = defaultdict(int)
    for row in read.failed:
        items[row["code"]] += row["n"]
    found += [ErrorReport("item", code, count, None) for code, count in items.items()]
    return sorted(found, key=lambda one: (one.whose, -one.count, one.code))
