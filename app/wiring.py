"""The only place that builds things from settings. One `Wiring` a process, made as it is used.

Each part is imported where it is made: a command that only looks, or a beat that only ticks, does
not pay for the HTTP client and the vectors.
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from app.domain.events import Nobody, Observer
from app.errors import StackNotRunning
from app.kinds.registry import declare as declare_kinds
from app.settings import Settings, load

if TYPE_CHECKING:
    from app.domain.routing import EndpointSpec
    from app.inference.tokens import Ask, Counters
    from app.inference.wires import Wires
    from app.metrics.exposition import Exposition
    from app.metrics.recorder import Recorder
    from app.services.calibration import Calibration
    from app.services.collections import Collections
    from app.services.completion import Completion
    from app.services.doorbell import Doorbell
    from app.services.endpoints import Endpoints
    from app.services.estimating import Estimating
    from app.services.evaluation import Evaluation
    from app.services.examining import Examining
    from app.services.execution import Execution
    from app.services.exporting import Exporting
    from app.services.indexing import Indexing
    from app.services.inspection import Inspection
    from app.services.launching import Launching
    from app.services.learning import Learning
    from app.services.leases import Leases
    from app.services.people.interactive import Interactive
    from app.services.pools import Pools
    from app.services.presence import Presence
    from app.services.probing import Probing
    from app.services.rates import Rates
    from app.services.reporting import Reporting
    from app.services.rescue import Rescue
    from app.services.retention import Retention
    from app.services.ringing import Ringing
    from app.services.scaling import Scaling
    from app.services.schedule_runs import ScheduleRuns
    from app.services.scheduling import Scheduling
    from app.services.scraping import Scraping
    from app.services.searching import Searching
    from app.services.standing import Rules
    from app.services.steering import Steering
    from app.services.submission import Submission
    from app.services.telling import Telling
    from app.services.throttling import Throttling
    from app.storage.database import Database
    from app.storage.gauge_store import Backlog, EndpointGauges, PoolGauges


class Wiring:
    """Everything a process needs, from its settings."""

    def __init__(self, settings: Settings, observer: Observer | None = None) -> None:
        self.settings = settings
        declare_kinds(settings.kinds.modules)
        self.observer: Observer = observer or Nobody()
        self._incarnation: tuple[int, str] | None = None
        self.worker_name = f"{socket.gethostname()}.{os.getpid()}"

    @classmethod
    def from_environment(cls, config: Path | None = None) -> Wiring:
        """The wiring of this process's own environment and giveway.toml."""
        return cls(load(config))

    @property
    def worker(self) -> str:
        """This process among all: its name, and a part that no other process shares."""
        if self._incarnation is None or self._incarnation[0] != os.getpid():
            self._incarnation = (os.getpid(), uuid.uuid4().hex[:8])
        return f"{self.worker_name}#{self._incarnation[1]}"

    def close(self) -> None:
        """Close what was used of it: threads end, connections are given back."""
        made = vars(self)  # Cached properties: what was used.
        names = ("interactive", "presence", "leases", "scraping", "recorder", "wires", "database")
        for name in names:
            if name in made:
                made[name].close()

    @cached_property
    def database(self) -> Database:
        """Postgres. StackNotRunning: no URL is known."""
        from app.storage.database import Database

        url = self.settings.database.url
        if url is None:
            raise StackNotRunning(
                "no database is known: start the stack with `giveway up`, name its folder with "
                "--data or GIVEWAY_DATA, or set GIVEWAY_DATABASE__URL"
            )
        return Database(
            url.get_secret_value(),
            self.settings.database.connections_of(self.threads),
            self.settings.database.statement_timeout_s,
            f"giveway {self.worker_name}",
        )

    @cached_property
    def data(self) -> Path | None:
        """Folder for what is put on disk for a while; None: the machine's own place for that."""
        return None

    @cached_property
    def threads(self) -> int:
        """Threads of this process that use the database; set by the worker before first use."""
        return 4

    @cached_property
    def recorder(self) -> Recorder:
        """The event log's writer; the worker floor and the command line make it the observer."""
        from app.metrics.recorder import Recorder

        return Recorder(lambda: self.database)

    @cached_property
    def pools(self) -> Pools:
        """Pools with their endpoints. UnknownName: a policy that does not exist."""
        from app.declared.pools import pools_of

        return pools_of(self.settings)

    def pools_with(self, model: str | None) -> Pools:
        """The pools; those of this moment, where no declared endpoint serves `model`."""
        from app.services.pools import with_added

        if model in self.pools.models or (model is None and self.pools.endpoints):
            return self.pools
        return with_added(self.database, self.pools)

    @cached_property
    def wires(self) -> Wires:
        """Clients of the endpoints."""
        from app.inference.wires import Wires

        return Wires()

    @cached_property
    def counters(self) -> Counters:
        """Token counts before a call."""
        from app.domain.rates import Cost
        from app.inference.tokens import Counters

        def ask(spec: EndpointSpec) -> Ask:
            return lambda requests, deadline_s: self.rates.beside(
                spec, Cost(0, requests), deadline_s=deadline_s, interactive=False
            )

        return Counters(self.wires, ask)

    @cached_property
    def rates(self) -> Rates:
        """Rate budgets."""
        from app.services.rates import Rates

        return Rates(self.database, self.counters, self.settings.batch.lease_s)

    @cached_property
    def leases(self) -> Leases:
        """The leases of this process."""
        from app.services.leases import Leases

        batch = self.settings.batch
        return Leases(self.database, batch.lease_s, batch.heartbeat_s, lambda: self.worker)

    @cached_property
    def presence(self) -> Presence:
        """Telling that this worker runs."""
        from app.services.presence import Presence

        return Presence(self.database, lambda: self.worker)

    @cached_property
    def doorbell(self) -> Doorbell:
        """The bell; the worker floor sets it. Without one, ticks ring instead."""
        from app.services.doorbell import NoDoorbell

        return NoDoorbell()

    @cached_property
    def submission(self) -> Submission:
        """Submitting jobs."""
        from app.services.submission import Submission

        batch = self.settings.batch
        return Submission(
            self.database,
            self.pools,
            batch.chunk_items,
            batch.micro_batch_items,
            self.observer,
            batch.chunk_s,
        )

    @cached_property
    def launching(self) -> Launching:
        """Making jobs of templates."""
        from app.services.launching import Launching

        return Launching(self.submission, self.data)

    @cached_property
    def estimating(self) -> Estimating:
        """Saying what a job would take."""
        from app.declared.batch import limits_of
        from app.services.estimating import Estimating

        limits, chunk_items = limits_of(self.settings), self.settings.batch.chunk_items
        return Estimating(self.database, self.pools, self.counters.of, limits, chunk_items)

    @cached_property
    def ringing(self) -> Ringing:
        """Ringing for work."""
        from app.services.ringing import Ringing

        return Ringing(self.database, self.pools, self.doorbell)

    @cached_property
    def rules(self) -> Rules:
        """By what endpoints are judged."""
        from app.declared.standing import rules_of

        return rules_of(self.settings, random.random)

    @cached_property
    def execution(self) -> Execution:
        """Working on chunks."""
        from app.declared.batch import limits_of
        from app.services.calling import Caller
        from app.services.execution import Execution

        limits = limits_of(self.settings)
        return Execution(
            self.database,
            self.pools,
            Caller(self.wires, self.rates, self.counters, limits.call_timeout_s),
            self.leases,
            limits,
            self.rules,
            self.observer,
            self.worker,
        )

    @cached_property
    def interactive(self) -> Interactive:
        """Answering people."""
        from app.declared.merging import rule_of
        from app.services.people.interactive import Interactive
        from app.services.people.lane import LaneRules

        people, batch = self.settings.interactive, self.settings.batch
        rules = LaneRules(
            people.deadline_s, people.call_timeout_s, batch.lease_s, batch.heartbeat_s, self.rules
        )
        return Interactive(
            self.database,
            self.pools,
            self.rates,
            lambda: self.worker,
            rules,
            rule_of(self.settings),
        )

    @cached_property
    def throttling(self) -> Throttling:
        """Recomputing limits."""
        from app.services.throttling import Throttling

        return Throttling(
            self.database,
            self.pools,
            self.settings.throttle.tick_s,
            self.observer,
            gauges=self.scraping.gauges,
        )

    @cached_property
    def scraping(self) -> Scraping:
        """Asking endpoints how loaded they are."""
        from app.services.scraping import Scraping

        return Scraping(self.wires)

    @cached_property
    def probing(self) -> Probing:
        """Probing endpoints that are open, and comparing their paces."""
        from app.services.probing import Probing

        return Probing(self.database, self.pools, self.wires, self.rates, self.rules, self.observer)

    @cached_property
    def endpoints(self) -> Endpoints:
        """Endpoints at run time."""
        from app.services.endpoints import Endpoints

        return Endpoints(self.database, self.pools, self.observer)

    @cached_property
    def calibration(self) -> Calibration:
        """Measuring endpoints."""
        from app.services.calibration import Calibration

        return Calibration(self.wires)

    @cached_property
    def scaling(self) -> Scaling:
        """Deciding how many endpoints come and go."""
        from app.declared.scaling import targets_of
        from app.services.scaling import Scaling

        return Scaling(
            self.database,
            self.pools,
            targets_of(self.settings),
            self.settings.batch.micro_batch_items,
            self.settings.scaling_tick_s,
            self.observer,
        )

    @cached_property
    def rescue(self) -> Rescue:
        """Taking back what killed workers held."""
        from app.services.rescue import Rescue

        return Rescue(self.database, self.settings.batch.crashes_before_split, self.observer)

    @cached_property
    def completion(self) -> Completion:
        """Finishing jobs."""
        from app.services.completion import Completion

        return Completion(self.database, self.observer)

    @cached_property
    def scheduling(self) -> Scheduling:
        """Schedules, and the runs that become due."""
        from app.services.scheduling import Scheduling

        return Scheduling(self.database)

    @cached_property
    def schedule_runs(self) -> ScheduleRuns:
        """Launching the runs of schedules."""
        from app.services.schedule_runs import ScheduleRuns

        return ScheduleRuns(self.database, self.launching, self.observer, random.random)

    @cached_property
    def telling(self) -> Telling:
        """Telling others of a job's end."""
        from app.services.telling import Telling

        webhooks = self.settings.webhooks
        return Telling(
            self.database,
            webhooks.max_attempts,
            webhooks.timeout_s,
            self.observer,
            random.random,
            allow_private=webhooks.allow_private,
        )

    @cached_property
    def retention(self) -> Retention:
        """Pruning."""
        from app.declared.retention import periods_of
        from app.services.retention import Retention

        return Retention(self.database, periods_of(self.settings))

    @cached_property
    def evaluation(self) -> Evaluation:
        """Reading evaluation runs."""
        from app.services.evaluation import Evaluation

        return Evaluation(self.database)

    @cached_property
    def inspection(self) -> Inspection:
        """Looking."""
        from app.services.inspection import Inspection

        return Inspection(self.database, self.pools)

    @cached_property
    def exporting(self) -> Exporting:
        """Writing out what was made."""
        from app.services.exporting import Exporting

        return Exporting(self.database)

    @cached_property
    def examining(self) -> Examining:
        """Saying what is wrong."""
        from app.declared.installation import installation_of
        from app.services.examining import Examining

        expected = installation_of(self.settings, self.pools, self.threads)
        return Examining(lambda: self.database, expected, self.pools)

    @cached_property
    def reporting(self) -> Reporting:
        """Looking back."""
        from app.services.reporting import Reporting

        return Reporting(self.database, self.pools, self.settings.batch.micro_batch_items)

    @cached_property
    def exposition(self) -> Exposition:
        """What Prometheus reads."""
        from app.metrics.exposition import Exposition, Known
        from app.services.pools.now import pool_now
        from app.services.waiting import requests_in

        most = self.settings.batch.micro_batch_items

        def describe(
            now: PoolGauges, endpoints: Sequence[EndpointGauges], backlog: Sequence[Backlog]
        ) -> Known | None:
            pool = self.pools.by_name.get(now.pool)
            if pool is None:
                return None
            here = pool_now(pool, now, endpoints)
            return Known(here.limit, here.bounds.total, here.targets, requests_in(backlog, most))

        return Exposition(self.database, describe)

    @cached_property
    def steering(self) -> Steering:
        """Pausing, cancelling, overriding."""
        from app.services.steering import Steering

        return Steering(self.database, self.pools, self.observer)

    @cached_property
    def collections(self) -> Collections:
        """Collections as a whole."""
        from app.services.collections import Collections

        return Collections(self.database)

    @cached_property
    def learning(self) -> Learning:
        """Learning how large a micro-batch may be."""
        from app.services.learning import Learning

        return Learning(self.database, self.pools)

    @cached_property
    def indexing(self) -> Indexing:
        """Building and dropping their indexes."""
        from app.domain.indexing import IndexRules
        from app.services.indexing import Indexing

        return Indexing(self.database, IndexRules())

    @cached_property
    def searching(self) -> Searching:
        """Searching collections."""
        from app.services.searching import Searching

        return Searching(self.database, self.pools, self.interactive.run)

    def declare(self) -> None:
        """Write the declared endpoints, and a limit row for every pool that has none."""
        from app.storage.endpoint_store import EndpointStore
        from app.storage.limit_store import LimitStore

        with self.database.transaction() as tx:
            LimitStore(tx).ensure([pool.bounds for pool in self.pools.by_name.values()])
            EndpointStore(tx).declare(self.pools.endpoints)
