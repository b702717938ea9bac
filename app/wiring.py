"""The only place that builds things from settings. One `Wiring` a process, made as it is used.

Each part is imported where it is made: a command that only looks, or a beat that only ticks, does
not pay for the HTTP client and the vectors.
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from app.domain.events import Nobody, Observer
from app.domain.retry import RetryPolicy
from app.domain.routing import EndpointSpec, ModelLimits
from app.domain.throttle.policies import check_options
from app.domain.throttle.values import Bounds, PolicySettings
from app.errors import ConfigError, StackNotRunning
from app.kinds.registry import declare as declare_kinds
from app.services.doorbell import Doorbell
from app.services.pools import Pool, Pools
from app.settings import EndpointSettings, PoolSettings, ScalingSettings, Settings, load

if TYPE_CHECKING:
    from app.inference.tokens import Ask, Counters
    from app.inference.wires import Wires
    from app.metrics.exposition import Exposition
    from app.metrics.recorder import Recorder
    from app.services.calibration import Calibration
    from app.services.collections import Collections
    from app.services.completion import Completion
    from app.services.endpoints import Endpoints
    from app.services.estimating import Estimating
    from app.services.evaluation import Evaluation
    from app.services.examining import Examining
    from app.services.execution import Execution
    from app.services.exporting import Exporting
    from app.services.indexing import Indexing
    from app.services.inspection import Inspection
    from app.services.interactive import Interactive
    from app.services.launching import Launching
    from app.services.learning import Learning
    from app.services.leases import Leases
    from app.services.probing import Probing
    from app.services.rates import Rates
    from app.services.reporting import Reporting
    from app.services.rescue import Rescue
    from app.services.retention import Retention
    from app.services.ringing import Ringing
    from app.services.scaling import Scaling, Target
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

_HOUR_S = 3600.0
_DAY_S = 86_400.0
_PER_TOKEN_MS = PolicySettings().per_token_target_ms


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
        for name in ("leases", "scraping", "recorder", "wires", "database"):
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
            self._connections_at(self.threads),
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

    def _connections_at(self, threads: int) -> int:
        """Most connections of a process of so many threads."""
        return self.settings.database.connections or min(threads + 2, 40)

    @cached_property
    def recorder(self) -> Recorder:
        """The event log's writer; the worker floor and the command line make it the observer."""
        from app.metrics.recorder import Recorder

        return Recorder(lambda: self.database)

    @cached_property
    def pools(self) -> Pools:
        """Pools with their endpoints. UnknownName: a policy that does not exist."""
        return Pools(MappingProxyType({p.name: self._pool(p) for p in self.settings.pools}))

    def _pool(self, pool: PoolSettings) -> Pool:
        throttle = self.settings.throttle
        name = pool.policy or throttle.policy
        check_options(name, pool.options)
        policy = PolicySettings(
            name=name,
            target_p95_ms=pool.target_p95_ms,
            first_token_target_ms=pool.first_token_target_ms or pool.target_p95_ms,
            per_token_target_ms=pool.per_token_target_ms or _PER_TOKEN_MS,
            people_capacity=pool.people_capacity,
            short_output_tokens=pool.short_output_tokens,
            rps_threshold=throttle.rps_threshold,
            window_s=throttle.window_s,
            alpha=throttle.alpha,
            valid_for_s=throttle.valid_for_s,
            options=MappingProxyType(dict(pool.options)),
        )
        bounds = Bounds(pool.total, pool.reserve, pool.batch_min, pool.ceiling, pool.name)
        specs = tuple(_endpoint(e) for e in self.settings.endpoints if e.pool == pool.name)
        return Pool(bounds, policy, specs)

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
    def doorbell(self) -> Doorbell:
        """The bell; the worker floor sets it. Without one, ticks ring instead."""
        return NoDoorbell()

    @cached_property
    def submission(self) -> Submission:
        """Submitting jobs."""
        from app.services.submission import Submission

        batch = self.settings.batch
        return Submission(
            self.database, self.pools, batch.chunk_items, batch.micro_batch_items, self.observer
        )

    @cached_property
    def launching(self) -> Launching:
        """Making jobs of templates."""
        from app.services.launching import Launching

        return Launching(self.submission, self.data)

    @cached_property
    def estimating(self) -> Estimating:
        """Saying what a job would take."""
        from app.services.estimating import Estimating
        from app.services.work import BatchLimits

        batch = self.settings.batch
        limits = BatchLimits(batch.micro_batch_items, batch.micro_batch_tokens)
        return Estimating(self.database, self.pools, self.counters.of, limits, batch.chunk_items)

    @cached_property
    def ringing(self) -> Ringing:
        """Ringing for work."""
        from app.services.ringing import Ringing

        return Ringing(self.database, self.pools, self.doorbell)

    @cached_property
    def rules(self) -> Rules:
        """By what endpoints are judged."""
        from app.domain.health import HealthPolicy
        from app.services.standing import Rules

        batch, health = self.settings.batch, self.settings.health
        return Rules(
            RetryPolicy(batch.max_attempts, batch.retry_base_s, batch.retry_max_s),
            HealthPolicy(**health.model_dump()),
            random.random,
        )

    @cached_property
    def execution(self) -> Execution:
        """Working on chunks."""
        from app.services.calling import Caller
        from app.services.execution import Execution
        from app.services.work import BatchLimits

        batch = self.settings.batch
        return Execution(
            self.database,
            self.pools,
            Caller(self.wires, self.rates, self.counters, batch.call_timeout_s),
            self.leases,
            BatchLimits(batch.micro_batch_items, batch.micro_batch_tokens, batch.call_timeout_s),
            self.rules,
            self.observer,
            self.worker,
        )

    @cached_property
    def interactive(self) -> Interactive:
        """Answering people."""
        from app.domain.merging import MergeRule
        from app.services.interactive import Interactive
        from app.services.places import Places
        from app.services.serving import Serving

        interactive, merging = self.settings.interactive, self.settings.merging
        places = Places(self.database, self.pools, self.leases, self.worker)
        timeout_s = interactive.call_timeout_s
        return Interactive(
            self.database,
            self.pools,
            Serving(self.database, places, self.wires, self.rates, timeout_s, self.rules),
            self.leases,
            interactive.deadline_s,
            timeout_s,
            MergeRule(
                merging.wait_ms / 1000, merging.most_texts, self.settings.batch.micro_batch_tokens
            ),
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
        from app.services.scaling import Scaling

        return Scaling(
            self.database,
            self.pools,
            [_target(one) for one in self.settings.scaling],
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
        """Launching jobs by the clock."""
        from app.services.scheduling import Scheduling

        return Scheduling(self.database, self.launching, self.observer, random.random)

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
        from app.services.retention import Retention

        return Retention(
            self.database,
            self.settings.interactive.keep_requests_h * _HOUR_S,
            self.settings.throttle.keep_decisions_h * _HOUR_S,
            self.settings.retention.keep_events_days * _DAY_S,
            self.settings.retention.keep_jobs_days * _DAY_S,
            self.settings.retention.keep_deliveries_days * _DAY_S,
        )

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
        from app.services.examining import Examining, Installation
        from app.settings.secrets import shown

        settings = self.settings
        url = settings.database.url
        threads = {
            "interactive": settings.interactive_threads,
            "batch": settings.batch_threads,
            "control": settings.control_threads,
            "a command": self.threads,
        }
        expected = Installation(
            where="database" if url is None else shown(url),
            pools=frozenset(self.pools.by_name),
            scaled=frozenset(one.pool for one in settings.scaling),
            connections={name: self._connections_at(count) for name, count in threads.items()},
            valid_for_s=settings.throttle.valid_for_s,
            call_timeout_s=settings.batch.call_timeout_s,
            longest_s=settings.interactive.deadline_s + settings.interactive.call_timeout_s,
        )
        return Examining(lambda: self.database, expected)

    @cached_property
    def reporting(self) -> Reporting:
        """Looking back."""
        from app.services.reporting import Reporting

        return Reporting(self.database, self.pools, self.settings.batch.micro_batch_items)

    @cached_property
    def exposition(self) -> Exposition:
        """What Prometheus reads."""
        from app.metrics.exposition import Exposition, Known
        from app.services.pool_now import pool_now
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


class NoDoorbell:
    """A bell that nobody hears."""

    def waiting(self) -> int:
        """Nothing waits."""
        return 0

    def ring(self, rings: object) -> int:  # noqa: ARG002
        """Nothing goes out."""
        return 0


def _target(one: ScalingSettings) -> Target:
    from app.domain.autoscale import Rules
    from app.services.scaling import Target

    rules = Rules(
        minimum=one.minimum,
        maximum=one.maximum,
        backlog_per_endpoint=one.backlog_per_endpoint,
        oldest_wait_s=one.oldest_wait_s,
        idle_share=one.idle_share,
        hold_s=one.hold_s,
        out_cooldown_s=one.out_cooldown_s,
        in_cooldown_s=one.in_cooldown_s,
        start_timeout_s=one.start_timeout_s,
    )
    return Target(
        one.pool,
        rules,
        one.max_concurrency,
        waits_for_start=one.target == "process",
        hook=one.command if one.target == "hook" else (),
        hook_timeout_s=one.hook_timeout_s,
    )


def endpoint_of(declaration: Mapping[str, Any]) -> EndpointSpec:
    """The endpoint of a declaration, by the rules of `[[endpoints]]`. ConfigError says which is
    broken; what was given is not repeated, for it may be a key."""
    try:
        return _endpoint(EndpointSettings(**declaration))
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'endpoint'}: "
            f"{fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_url=False, include_context=False)
        ]
        raise ConfigError("\n".join(faults)) from None


def _endpoint(endpoint: EndpointSettings) -> EndpointSpec:
    return EndpointSpec(
        name=endpoint.name,
        pool=endpoint.pool,
        kind=endpoint.kind,
        base_url=endpoint.base_url,
        models=endpoint.models,
        max_concurrency=endpoint.max_concurrency,
        role=endpoint.role,
        api_key_env=endpoint.api_key_env,
        max_batch_items=endpoint.max_batch_items,
        max_batch_tokens=endpoint.max_batch_tokens,
        connect_timeout_s=endpoint.connect_timeout_s,
        max_input_tokens=endpoint.max_input_tokens,
        requests_per_minute=endpoint.requests_per_minute,
        tokens_per_minute=endpoint.tokens_per_minute,
        input_price=endpoint.input_price,
        output_price=endpoint.output_price,
        stands_in_for=endpoint.stands_in_for,
        tokenizer=endpoint.tokenizer,
        limits=tuple(ModelLimits(**one.model_dump()) for one in endpoint.limits),
    )
