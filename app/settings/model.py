"""Everything that people can write, in groups, with units in the names. Groups have to agree."""

from __future__ import annotations

import os
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.batch import BatchSettings
from app.settings.endpoints import EndpointSettings, HealthSettings
from app.settings.interactive import InteractiveSettings, MergingSettings
from app.settings.jobs import KindsSettings, RetentionSettings, WebhookSettings
from app.settings.pools import PoolSettings, ThrottleSettings
from app.settings.processes import (
    BrokerSettings,
    DatabaseSettings,
    FlowerSettings,
    WorkerSettings,
)
from app.settings.scaling import ScalingSettings


class Settings(BaseSettings):
    """Everything. Precedence, strongest first: flags, environment, giveway.toml, defaults."""

    model_config = SettingsConfigDict(
        env_prefix="GIVEWAY_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    database: DatabaseSettings = DatabaseSettings()
    broker: BrokerSettings = BrokerSettings()
    worker: WorkerSettings = WorkerSettings()
    batch: BatchSettings = BatchSettings()
    interactive: InteractiveSettings = InteractiveSettings()
    throttle: ThrottleSettings = ThrottleSettings()
    flower: FlowerSettings = FlowerSettings()
    health: HealthSettings = HealthSettings()
    merging: MergingSettings = MergingSettings()
    retention: RetentionSettings = RetentionSettings()
    webhooks: WebhookSettings = WebhookSettings()
    kinds: KindsSettings = KindsSettings()
    pools: Annotated[tuple[PoolSettings, ...], Field(min_length=1)] = (PoolSettings(name="main"),)
    endpoints: tuple[EndpointSettings, ...] = ()
    scaling: tuple[ScalingSettings, ...] = ()
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over what `load` read from the file (given as initial values)."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        pools = [pool.name for pool in self.pools]
        for what, names in (("pools", pools), ("endpoints", [e.name for e in self.endpoints])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what}: the name {twice[0]!r} is given twice")
        for endpoint in self.endpoints:
            if endpoint.pool not in pools:
                raise ValueError(
                    f"endpoint {endpoint.name!r} is in pool {endpoint.pool!r}, "
                    f"which is not declared; declared pools: {', '.join(pools)}"
                )
        for scaling in self.scaling:
            if scaling.pool not in pools:
                raise ValueError(
                    f"scaling is for pool {scaling.pool!r}, which is not declared; "
                    f"declared pools: {', '.join(pools)}"
                )
        return self

    def pool(self, name: str) -> PoolSettings | None:
        """The pool called `name`, or None."""
        return next((pool for pool in self.pools if pool.name == name), None)

    @property
    def scaling_tick_s(self) -> float:
        """Seconds between decisions about how many endpoints a pool has."""
        return max(0.5, min(5.0, *(one.hold_s / 2 for one in self.scaling), 5.0))

    @property
    def batch_threads(self) -> int:
        """Threads of one batch worker: enough for every endpoint that scaling may add, and some
        for those that a person adds."""
        return self.worker.batch_concurrency or (
            sum(pool.ceiling for pool in self.pools)
            + self._scaled_places
            + self.worker.batch_headroom
        )

    @property
    def interactive_threads(self) -> int:
        """Threads of one interactive worker: more than places, since some wait for one."""
        return self.worker.interactive_concurrency or min(
            128, max(32, 4 * (sum(pool.total for pool in self.pools) + self._scaled_places))
        )

    @property
    def interactive_processes(self) -> int:
        """Interactive workers on this machine."""
        return self.interactive.processes or min(4, max(1, (os.cpu_count() or 1) // 2))

    @property
    def control_threads(self) -> int:
        """Threads of one control worker: two launches, the webhooks and an index may take long;
        ticks must find a thread all the same."""
        return 8

    @property
    def _scaled_places(self) -> int:
        return sum(one.maximum * one.max_concurrency for one in self.scaling)
