"""The settings people can write, grouped, with units in the names. Unknown keys are errors."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0)]

_DATABASE_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_BROKER_SCHEMES = ("redis", "rediss", "amqp", "amqps", "pyamqp")


class Group(BaseModel):
    """A table of giveway.toml. Frozen, and closed: a misspelt key does not pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseSettings(Group):
    """`[database]`: where the jobs live."""

    url: SecretStr | None = None
    """postgresql://user:password@host:port/name. None: the embedded Postgres of `giveway up`."""
    connections: Count | None = None
    """Most connections of one process. None: derived from its concurrency."""
    statement_timeout_s: Positive = 30.0

    @field_validator("url")
    @classmethod
    def _postgres_only(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and url.get_secret_value().split("://")[0] not in _DATABASE_SCHEMES:
            raise ValueError("must begin with postgresql://; Giveway keeps its jobs in Postgres")
        return url


class BrokerSettings(Group):
    """`[broker]`: who carries doorbells and interactive requests."""

    url: SecretStr | None = None
    """redis://… (Redis or Valkey) or amqp://… (RabbitMQ). None: the embedded Valkey."""
    result_url: SecretStr | None = None
    """Where Celery keeps interactive results. None: the broker itself (rpc:// on RabbitMQ)."""
    connect_timeout_s: Positive = 0.5

    @field_validator("url")
    @classmethod
    def _known_transport(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return url
        scheme = url.get_secret_value().split("://")[0]
        if scheme in ("valkey", "valkeys"):
            right = scheme.replace("valkey", "redis")
            raise ValueError(f"kombu has no {scheme}:// transport; write {right}:// for Valkey")
        if scheme not in _BROKER_SCHEMES:
            raise ValueError("must begin with redis://, rediss://, amqp:// or amqps://")
        return url


class WorkerSettings(Group):
    """`[worker]`: how many things one process does at once."""

    batch_concurrency: Count | None = None
    """Threads of a batch worker. None: the sum of every pool's batch_max, of the places that
    scaling may add, and of batch_headroom."""
    batch_headroom: Annotated[int, Field(ge=0)] = 32
    """Places of endpoints that join at run time which a batch worker can use without a restart. A
    thread is made when there is work for it."""
    interactive_concurrency: Count | None = None
    """Threads of an interactive worker. None: four times the sum of the pools' totals, at least 32
    and at most 128."""
    shared: bool = False
    """Let one worker take several queues. It alternates between them, so people wait for batch."""


class BatchSettings(Group):
    """`[batch]`: chunks, leases and retries."""

    lease_s: Annotated[float, Field(ge=3)] = 60.0
    heartbeat_s: Annotated[float, Field(ge=0.2)] = 5.0
    chunk_items: Annotated[int, Field(ge=1, le=100_000)] = 512
    """Items leased together. Where each item needs calls of its own a chunk holds as many items as
    others have calls: chunk_items / micro_batch_items."""
    micro_batch_items: Annotated[int, Field(ge=1, le=2048)] = 64
    micro_batch_tokens: Annotated[int, Field(ge=16)] = 16_384
    max_attempts: Count = 5
    retry_base_s: Positive = 1.0
    retry_max_s: Positive = 300.0
    crashes_before_split: Count = 3
    call_timeout_s: Positive = 120.0

    @model_validator(mode="after")
    def _beats_before_it_ends(self) -> Self:
        if self.heartbeat_s * 3 > self.lease_s:
            raise ValueError(
                f"heartbeat_s = {self.heartbeat_s:g} must be at most a third of "
                f"lease_s = {self.lease_s:g}, or a busy worker loses its leases"
            )
        return self


class InteractiveSettings(Group):
    """`[interactive]`: what people get."""

    deadline_s: Positive = 120.0
    """A request that has waited longer than this is not started."""
    call_timeout_s: Positive = 120.0
    result_ttl_s: Positive = 3600.0
    keep_requests_h: Positive = 48.0
    """Rows of interactive_requests older than this are pruned."""


class ThrottleSettings(Group):
    """`[throttle]`: how the limit is recomputed; each pool may override the policy."""

    policy: str = "budget"
    tick_s: Annotated[float, Field(ge=0.2, le=60)] = 1.0
    window_s: Annotated[float, Field(ge=1, le=600)] = 10.0
    valid_for_s: Annotated[float, Field(ge=1)] = 10.0
    """A limit older than this counts no more: everyone falls to the floor."""
    rps_threshold: Positive = 20.0
    alpha: Annotated[float, Field(gt=0, le=1)] = 0.3
    keep_decisions_h: Positive = 72.0

    @model_validator(mode="after")
    def _outlives_ticks(self) -> Self:
        if self.valid_for_s < 3 * self.tick_s:
            raise ValueError(
                f"valid_for_s = {self.valid_for_s:g} must be at least three ticks "
                f"(tick_s = {self.tick_s:g}), or one late tick sends batch to the floor"
            )
        return self


class FlowerSettings(Group):
    """`[flower]`: the window on the workers. It never runs without a password."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0: a free port is chosen."""
    user: str = "giveway"
    password: SecretStr | None = None
    """None: made by `giveway up` and kept in the data folder."""


class PoolSettings(Group):
    """`[[pools]]`: endpoints that share capacity, and so one limit."""

    name: Name
    total: Count = 8
    """Requests in flight, both classes together."""
    reserve: Count = 1
    """Places that batch never takes."""
    batch_min: Count = 1
    batch_max: Count | None = None
    """None: total − reserve."""
    target_p95_ms: Positive = 500.0
    """What an interactive request may take, end to end."""
    first_token_target_ms: Positive | None = None
    per_token_target_ms: Positive | None = None
    short_output_tokens: Annotated[int, Field(ge=0)] = 16
    """Answers of at most so many tokens are held to the whole time, longer ones to their parts."""
    people_capacity: Count | None = None
    """Interactive requests in flight that are slow without any batch; `giveway calibrate` measures
    it. Who came into such a crowd is not late because of batch. None: not known."""
    policy: str | None = None
    """None: `[throttle] policy`."""
    options: dict[str, float] = Field(default_factory=dict)
    """Constants of the policy, by name."""

    @property
    def ceiling(self) -> int:
        """The most batch requests in flight that the pool ever allows."""
        return self.total - self.reserve if self.batch_max is None else self.batch_max

    @model_validator(mode="after")
    def _room_for_both(self) -> Self:
        if not self.batch_min <= self.ceiling <= self.total - self.reserve:
            raise ValueError(
                f"pool {self.name!r}: needs batch_min <= batch_max <= total - reserve, "
                f"but batch_min = {self.batch_min}, batch_max = {self.ceiling}, "
                f"total - reserve = {self.total} - {self.reserve}"
            )
        return self


class ModelLimitsSettings(Group):
    """`[[endpoints.limits]]`: what an endpoint takes of one of its models in particular."""

    model: str
    max_batch_items: Annotated[int, Field(ge=1, le=2048)] | None = None
    max_batch_tokens: Annotated[int, Field(ge=16)] | None = None
    max_input_tokens: Annotated[int, Field(ge=16)] | None = None


class EndpointSettings(Group):
    """`[[endpoints]]`: a place that serves models."""

    name: Name
    pool: Name = "main"
    kind: Literal["openai", "vllm", "tei", "ollama", "llamacpp", "simulated"] = "openai"
    base_url: str
    """With the version part, as OpenAI clients take it: http://127.0.0.1:8000/v1."""
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    max_concurrency: Count = 8
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The *name* of the environment variable that holds the key; never the key itself."""
    role: Literal["primary", "backup", "degraded"] = "primary"
    max_batch_items: Annotated[int, Field(ge=1, le=2048)] | None = None
    max_batch_tokens: Annotated[int, Field(ge=16)] | None = None
    connect_timeout_s: Positive = 5.0
    max_input_tokens: Annotated[int, Field(ge=16)] | None = None
    """Longest single input that the models take; None: not known."""
    requests_per_minute: Count | None = None
    """Of all processes together, in any 60 s. None: no budget."""
    tokens_per_minute: Count | None = None
    """Prompt and completion together, in any 60 s. None: no budget."""
    input_price: NotNegative = 0.0
    """Money for a million prompt tokens, in a currency of your choice, the same everywhere."""
    output_price: NotNegative = 0.0
    """Money for a million completion tokens."""
    stands_in_for: tuple[str, ...] = ()
    """Of a degraded endpoint: the models for which its own first model may answer."""
    tokenizer: str | None = None
    """Path of a tokenizer.json, to count tokens before they are sent where the server has no
    tokenize call (vllm, llamacpp and tei have one). None: a rough count there."""
    limits: tuple[ModelLimitsSettings, ...] = ()
    """Tables `[[endpoints.limits]]`: a `model`, and its own max_batch_items, max_batch_tokens and
    max_input_tokens, where they are not those of the endpoint."""

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"^https?://[^/\s]+", url):
            raise ValueError("must be an address such as http://127.0.0.1:8000/v1")
        if re.match(r"^https?://[^/@\s]*@", url):
            raise ValueError("must hold no password; name the key's variable in api_key_env")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _limits_are_of_its_models(self) -> Self:
        named = [one.model for one in self.limits]
        for model in named:
            if model not in self.models:
                raise ValueError(
                    f"endpoint {self.name!r}: limits are for model {model!r}, which it does not "
                    f"serve; its models: {', '.join(self.models)}"
                )
            if named.count(model) > 1:
                raise ValueError(f"endpoint {self.name!r}: two limits for model {model!r}")
        return self

    @model_validator(mode="after")
    def _only_degraded_ones_stand_in(self) -> Self:
        if self.stands_in_for and self.role != "degraded":
            raise ValueError(
                f'endpoint {self.name!r}: stands_in_for is for role = "degraded", '
                f"but its role is {self.role!r}"
            )
        return self


class HealthSettings(Group):
    """`[health]`: when an endpoint is left alone, and how it comes back."""

    failures_to_open: Count = 5
    """Failures in a row that open an endpoint's breaker: it then gets nothing but probes."""
    open_s: Positive = 5.0
    """How long a breaker stays open before a probe; doubled each time the probe fails."""
    open_max_s: Positive = 60.0
    """The longest that it stays open at a time."""
    probe_timeout_s: Positive = 10.0
    """How long a probe may take."""
    slow_factor: Annotated[float, Field(gt=1)] = 2.5
    """So many times slower than its peers makes an endpoint slow: work goes to the others first.
    Below three, so that one which is three times slower is past it, whatever its load."""
    slow_window_s: Positive = 30.0
    """Over how much of the past endpoints are compared."""


class MergingSettings(Group):
    """`[merging]`: small interactive embedding requests that arrive together become one call."""

    wait_ms: Annotated[float, Field(ge=0, le=100)] = 8.0
    """A request that comes while others are under way waits for more, until none has come for so
    long, and five times so long at most; a lone one does not wait. 0: nothing is merged."""
    most_texts: Count = 64
    """Texts in one merged call."""


class RetentionSettings(Group):
    """`[retention]`: how long what is done is kept."""

    keep_jobs_days: Positive = 30.0
    """Items and results of jobs that ended longer ago are deleted; vectors stay."""
    keep_events_days: Positive = 30.0
    """The log of events, which reports are made of."""
    keep_deliveries_days: Positive = 7.0
    """Webhooks that were delivered or given up."""


class WebhookSettings(Group):
    """`[webhooks]`: telling a job's end to other servers, signed by the standard."""

    max_attempts: Count = 8
    """After so many in vain a webhook is given up."""
    timeout_s: Positive = 10.0
    """How long the other server may take to answer."""
    allow_private: bool = True
    """Whether addresses inside this network may be told."""


class KindsSettings(Group):
    """`[kinds]`: kinds of your own."""

    modules: tuple[str, ...] = ()
    """Modules with a `KIND`, by their import names."""


class ScalingSettings(Group):
    """`[[scaling]]`: more endpoints for a pool when work waits, fewer when it does not."""

    pool: Name
    """The pool that grows and shrinks."""
    minimum: Annotated[int, Field(ge=0)] = 1
    """Endpoints that are always there, beside those declared."""
    maximum: Count = 4
    """Endpoints that are never passed, beside those declared."""
    backlog_per_endpoint: Positive = 64.0
    """Requests waiting an endpoint, above which one more is wanted."""
    oldest_wait_s: Positive = 30.0
    """A request that has waited longer than this wants one more endpoint."""
    idle_share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Below this share of places in use, one endpoint fewer is wanted."""
    hold_s: Positive = 10.0
    """How long a bound has to be passed without a break before one more is wanted."""
    out_cooldown_s: Positive = 15.0
    """Pause after a step before one more is wanted."""
    in_cooldown_s: Positive = 60.0
    """How long it has to be idle without a break, and after any step, before one fewer is wanted.
    """
    start_timeout_s: Positive = 300.0
    """How long a new endpoint may take until it answers; meanwhile no other one is asked for."""
    drain_timeout_s: Positive = 600.0
    """How long a leaving endpoint may take over what it still has in flight."""
    hook_timeout_s: Positive = 30.0
    """How long the command of a hook may run."""
    target: Literal["process", "hook", "keda"] = "process"
    """Who starts and stops endpoints: Giveway itself, a command of yours, or KEDA."""
    command: tuple[str, ...] = ()
    """process: the command that serves one more endpoint, with {port} in it. hook: the command that
    is told {pool}, {wanted} and {current}."""
    kind: Literal["openai", "vllm", "tei", "ollama", "llamacpp", "simulated"] = "openai"
    """What kind of server the command starts."""
    models: tuple[str, ...] = ()
    """The models that it serves."""
    max_concurrency: Count = 8
    """Of each endpoint that is started; the pool's total grows by it."""

    @model_validator(mode="after")
    def _lawful(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(
                f"scaling of pool {self.pool!r}: minimum = {self.minimum} is above "
                f"maximum = {self.maximum}"
            )
        if self.target != "keda" and not self.command:
            raise ValueError(
                f"scaling of pool {self.pool!r}: target = {self.target!r} needs a command"
            )
        return self


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
    def control_threads(self) -> int:
        """Threads of one control worker: two launches, the webhooks and an index may take long;
        ticks must find a thread all the same."""
        return 8

    @property
    def _scaled_places(self) -> int:
        return sum(one.maximum * one.max_concurrency for one in self.scaling)
