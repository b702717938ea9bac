"""The page that Prometheus reads: everything is asked of Postgres at each scrape, in one snapshot.

So any process can serve it, one that has just started tells the truth, and where nobody scrapes it
costs nothing. A database that does not answer is an error, not a page of old values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.metrics import names
from app.metrics.names import Metric
from app.storage.database import Database
from app.storage.gauge_store import Backlog, EndpointGauges, GaugeStore, PoolGauges
from app.storage.report_store import ReportStore, Row, Targets
from app.storage.scaler_store import ScalerStore

WINDOW_S = 60.0
_QUANTILES = ("0.5", "0.95", "0.99")


@dataclass(frozen=True, slots=True)
class Known:
    """What the settings and a pool's row say of it: the limit now, its places, its targets, and the
    requests that its backlog takes."""

    limit: int
    places: int
    targets: Targets
    backlog_requests: int


Describe = Callable[[PoolGauges, Sequence[EndpointGauges], Sequence[Backlog]], Known | None]
"""None: the settings do not have the pool any more."""


class Exposition(Collector):
    """Reads and names; `page` is what a scrape gets."""

    def __init__(self, database: Database, describe: Describe, window_s: float = WINDOW_S) -> None:
        self._database = database
        self._describe = describe
        self._window_s = window_s
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def page(self) -> bytes:
        """The text format. DatabaseUnavailable: there is nothing true to say."""
        return generate_latest(self.registry)

    def serve(self, host: str, port: int) -> tuple[WSGIServer, threading.Thread]:
        """Answer scrapes from threads of its own; the server's `shutdown` ends it."""
        return start_http_server(port, host, self.registry)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The families without values: registering asks no database."""
        return [_family(metric) for metric in names.ALL]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Every family with its values now."""
        page = _Page()
        with self._database.snapshot() as tx:
            gauges, store = GaugeStore(tx), ReportStore(tx)
            pools, endpoints, backlog = gauges.pools(), gauges.endpoints(), gauges.backlog()
            known = {
                name: found
                for name, pool in pools.items()
                if (found := self._describe(pool, endpoints, backlog.get(name, ()))) is not None
            }
            span = store.span(self._window_s, 1, list(known))
            people = store.people(span, [one.targets for one in known.values()])
            wanted = {name: one.wanted for name, one in ScalerStore(tx).all().items()}
        for name, one in known.items():
            _pool(page, pools[name], one, backlog.get(name, ()))
        for row in people:
            if row["part"] is None:
                _people(page, row)
        for name, count in wanted.items():
            page.put(names.WANTED, count, name)
        for endpoint in endpoints:
            _endpoint(page, endpoint)
        return page.families.values()


class _Page:
    """Families by name, as values come."""

    def __init__(self) -> None:
        self.families: Mapping[str, GaugeMetricFamily] = {m.name: _family(m) for m in names.ALL}

    def put(self, metric: Metric, value: float | None, *labels: str) -> None:
        """One value; None: it is not known, so it is not there."""
        if value is not None:
            self.families[metric.name].add_metric(list(labels), value)


def _family(metric: Metric) -> Any:
    return GaugeMetricFamily(metric.name, metric.about, labels=metric.labels)


def _pool(page: _Page, now: PoolGauges, known: Known, backlog: Sequence[Backlog]) -> None:
    page.put(names.LIMIT, known.limit, now.pool)
    page.put(names.TOTAL, known.places, now.pool)
    page.put(names.PRESSURE, now.pressure, now.pool)
    page.put(names.IN_FLIGHT, now.batch, now.pool, "batch")
    page.put(names.IN_FLIGHT, now.interactive, now.pool, "interactive")
    page.put(names.WAITING, now.queued, now.pool)
    page.put(names.BACKLOG_ITEMS, sum(one.items for one in backlog), now.pool)
    page.put(names.BACKLOG, known.backlog_requests, now.pool)
    page.put(names.OLDEST_WAIT, now.jobs_wait_s, now.pool, "batch")
    page.put(names.OLDEST_WAIT, now.people_wait_s, now.pool, "interactive")


def _people(page: _Page, row: Row) -> None:
    page.put(names.PEOPLE, row["requests"], row["pool"])
    page.put(names.PEOPLE_FAILED, row["failed"], row["pool"])
    page.put(names.ON_TARGET, row["on_target"], row["pool"])
    for part in ("queue", "first_token", "whole"):
        values = row[f"{part}_ms"] or [None] * len(_QUANTILES)
        for quantile, value in zip(_QUANTILES, values, strict=True):
            seconds = None if value is None else value / 1000
            page.put(names.LATENCY, seconds, row["pool"], part, quantile)


def _endpoint(page: _Page, one: EndpointGauges) -> None:
    page.put(names.ENDPOINT_STATE, 1, one.pool, one.name, one.state)
    page.put(names.ENDPOINT_PLACES, one.max_concurrency, one.pool, one.name)
    page.put(names.ENDPOINT_IN_FLIGHT, one.batch, one.pool, one.name, "batch")
    page.put(names.ENDPOINT_IN_FLIGHT, one.interactive, one.pool, one.name, "interactive")
