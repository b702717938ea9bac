"""The only place that builds things from settings. One `Wiring` a process, made as it is used.

Each part is imported where it is made: a command that only looks, or a beat that only ticks, does
not pay for the HTTP client and the vectors.
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from app.domain.events import Nobody, Observer
from app.domain.retry import RetryPolicy
from app.domain.routing import EndpointSpec
from app.domain.throttle.policies import check_options
from app.domain.throttle.values import Bounds, PolicySettings
from app.errors import StackNotRunning
from app.services.doorbell import Doorbell
from app.services.pools import Pool, Pools
from app.settings import EndpointSettings, PoolSettings, Settings, load

if TYPE_CHECKING:
    from app.inference.wires import Wires
    from app.services.calibration import Calibration
    from app.services.completion import Completion
    from app.services.execution import Execution
    from app.services.inspection import Inspection
    from app.services.interactive import Interactive
    from app.services.leases import Leases
    from app.services.rescue import Rescue
    from app.services.retention import Retention
    from app.services.ringing import Ringing
    from app.services.scraping import Scraping
    from app.services.searching import Searching
    from app.services.steering import Steering
    from app.services.submission import Submission
    from app.services.throttling import Throttling
    from app.storage.database import Database

_HOUR_S = 3600.0
_PER_TOKEN_MS = PolicySettings().per_token_target_ms


class Wiring:
    """Everything a process needs, from its settings."""

    def __init__(self, settings: Settings, observer: Observer | None = None) -> None:
        self.settings = settings
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
            self.settings.database.connections or self._connections,
            self.settings.database.statement_timeout_s,
            f"giveway {self.worker_name}",
        )

    @cached_property
    def threads(self) -> int:
        """Threads of this process that use the database; set by the worker before first use."""
        return 4

    @property
    def _connections(self) -> int:
        return min(self.threads + 2, 40)

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

    @cached_property
    def wires(self) -> Wires:
        """Clients of the endpoints."""
        from app.inference.wires import Wires

        return Wires()

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

        return Submission(self.database, self.pools, self.settings.batch.chunk_items, self.observer)

    @cached_property
    def ringing(self) -> Ringing:
        """Ringing for work."""
        from app.services.ringing import Ringing

        return Ringing(self.database, self.pools, self.doorbell)

    @cached_property
    def execution(self) -> Execution:
        """Working on chunks."""
        from app.services.execution import Execution
        from app.services.work import BatchLimits

        batch = self.settings.batch
        return Execution(
            self.database,
            self.pools,
            self.wires,
            self.leases,
            BatchLimits(batch.micro_batch_items, batch.micro_batch_tokens, batch.call_timeout_s),
            RetryPolicy(batch.max_attempts, batch.retry_base_s, batch.retry_max_s),
            self.observer,
            self.worker,
            random.random,
        )

    @cached_property
    def interactive(self) -> Interactive:
        """Answering people."""
        from app.services.interactive import Interactive

        interactive = self.settings.interactive
        return Interactive(
            self.database,
            self.pools,
            self.wires,
            self.leases,
            self.worker,
            interactive.deadline_s,
            interactive.call_timeout_s,
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
    def calibration(self) -> Calibration:
        """Measuring endpoints."""
        from app.services.calibration import Calibration

        return Calibration(self.wires)

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
    def retention(self) -> Retention:
        """Pruning."""
        from app.services.retention import Retention

        return Retention(
            self.database,
            self.settings.interactive.keep_requests_h * _HOUR_S,
            self.settings.throttle.keep_decisions_h * _HOUR_S,
        )

    @cached_property
    def inspection(self) -> Inspection:
        """Looking."""
        from app.services.inspection import Inspection

        return Inspection(self.database, self.pools)

    @cached_property
    def steering(self) -> Steering:
        """Pausing, cancelling, overriding."""
        from app.services.steering import Steering

        return Steering(self.database, self.pools)

    @cached_property
    def searching(self) -> Searching:
        """Searching collections."""
        from app.services.searching import Searching

        return Searching(
            self.database, self.pools, self.wires, self.settings.interactive.call_timeout_s
        )

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
    )
