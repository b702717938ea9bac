"""Which endpoint gets the next request: the least loaded that serves the model and has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.health import Breaker
from app.domain.jobs import Failover

PRIMARY, BACKUP, DEGRADED = "primary", "backup", "degraded"
"""The roles. A backup serves the same model elsewhere; a degraded endpoint may answer with another
model, for those that it stands in for."""

DEFAULT_REQUEST_BYTES = 10_000_000
"""Of a request, where the endpoint's declaration says nothing: some two and a half million tokens,
more than a model takes."""


@dataclass(frozen=True, slots=True)
class Takes:
    """What one request to an endpoint may hold: `items` inputs, `tokens` in all, and in any one
    input `input_tokens`. None: not known."""

    items: int | None = None
    tokens: int | None = None
    input_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What an endpoint takes in a request for `model`, where that is not what it takes for its
    other models. None: as for those."""

    model: str
    max_batch_items: int | None = None
    max_batch_tokens: int | None = None
    max_input_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """An endpoint as it is declared. `api_key_env` names a variable; the key is never here."""

    name: str
    pool: str
    kind: str
    base_url: str
    models: tuple[str, ...]
    max_concurrency: int
    role: str = "primary"
    api_key_env: str | None = None
    max_batch_items: int | None = None
    max_batch_tokens: int | None = None
    connect_timeout_s: float = 5.0
    max_input_tokens: int | None = None
    max_request_bytes: int = DEFAULT_REQUEST_BYTES
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_price: float = 0.0
    output_price: float = 0.0
    stands_in_for: tuple[str, ...] = ()
    tokenizer: str | None = None
    limits: tuple[ModelLimits, ...] = ()

    def takes(self, model: str) -> Takes:
        """What a request for `model` may hold; what is said of the model itself comes first."""
        own = next((one for one in self.limits if one.model == model), ModelLimits(model))
        return Takes(
            own.max_batch_items or self.max_batch_items,
            own.max_batch_tokens or self.max_batch_tokens,
            own.max_input_tokens or self.max_input_tokens,
        )


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """How an endpoint stands, for all processes alike.

    `cooling`: it refused and its cool-down is not over. `refusals` in a row. `openings` of its
    breaker since an ordinary request was last answered. `spoils`: the model whose bad replies
    opened it, where nothing else is wrong; its other models get work. `pace`: how many times as
    long as its peers it takes; None: not known. `wants_person`: it failed last since it wants
    another key or more money.
    """

    cooling: bool = False
    refusals: int = 0
    breaker: Breaker = Breaker.CLOSED
    openings: int = 0
    spoils: str | None = None
    draining: bool = False
    slow: bool = False
    pace: float | None = None
    wants_person: bool = False

    def usable(self, model: str) -> bool:
        """Whether it gets work for `model`."""
        return not (self.cooling or self.draining) and not self.is_shut(model)

    def comes_back(self, model: str) -> bool:
        """Whether it gets work for `model`, now or once it has cooled down."""
        waits_for_person = self.cooling and self.wants_person
        return not (self.draining or waits_for_person or self.is_shut(model))

    def is_shut(self, model: str) -> bool:
        """Whether its breaker is open for `model`."""
        return self.breaker is not Breaker.CLOSED and self.spoils in (None, model)

    @property
    def is_dead(self) -> bool:
        """Whether its breaker is open for all that it serves."""
        return self.breaker is not Breaker.CLOSED and self.spoils is None

    @property
    def in_service(self) -> bool:
        """Whether it gets work for some model."""
        return not (self.cooling or self.draining or self.is_dead)

    @property
    def word(self) -> str:
        """draining, open, half-open, cooling, slow or ok: the one that matters most."""
        if self.draining:
            return "draining"
        if self.breaker is not Breaker.CLOSED:
            return self.breaker.replace("_", "-")
        if self.cooling:
            return "cooling"
        return "slow" if self.slow else "ok"

    @property
    def on_trial(self) -> bool:
        """It was away and has answered nothing since: one request at a time, until it has."""
        back = self.openings > 0 and self.breaker is Breaker.CLOSED
        return back or self.refusals > 0


HEALTHY = EndpointHealth()


@dataclass(frozen=True, slots=True)
class Choice:
    """An endpoint, and the model it is asked for: its own first one where it stands in."""

    spec: EndpointSpec
    model: str

    @property
    def role(self) -> str:
        """primary, backup or degraded."""
        return self.spec.role


def serving(model: str, specs: Sequence[EndpointSpec]) -> list[EndpointSpec]:
    """The endpoints that serve `model`, in the order declared."""
    return [spec for spec in specs if model in spec.models]


def answers_for(spec: EndpointSpec, model: str, role: str) -> str | None:
    """The model by which `spec` answers for `model` in `role`; None: it does not.

    A degraded endpoint that serves `model` itself answers with it.
    """
    if spec.role != role:
        return None
    if model in spec.models:
        return model
    return spec.models[0] if role == DEGRADED and model in spec.stands_in_for else None


def usable(
    model: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
    role: str = PRIMARY,
) -> bool:
    """Whether some endpoint of `role` takes work for `model`, full or not."""
    return any(
        (answers := answers_for(spec, model, role)) is not None
        and health.get(spec.name, HEALTHY).usable(answers)
        for spec in specs
    )


def chosen(
    model: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
    in_flight: Mapping[str, int],
    *,
    roles: Sequence[str] = (PRIMARY,),
    trickle: bool = False,
) -> Choice | None:
    """The endpoint for one more request for `model`; None: none of `roles` has room.

    The first of `roles` that has room wins. Within it slow ones come last; then the least share of
    its places in use, then the pace, then the order declared. `trickle`: a slow one with nothing in
    flight is taken like the others, so that it can show that it has recovered.
    """
    for role in roles:
        free = [
            Choice(spec, answers)
            for spec in specs
            if (answers := answers_for(spec, model, role)) is not None
            and in_flight.get(spec.name, 0) < places(spec, health.get(spec.name, HEALTHY), answers)
        ]
        if free:
            return min(free, key=lambda one: _burden(one.spec, health, in_flight, trickle=trickle))
    return None


def room(
    model: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
    in_flight: Mapping[str, int],
    role: str = PRIMARY,
) -> int:
    """How many more requests for `model` the endpoints of `role` take now."""
    return sum(
        max(0, places(spec, health.get(spec.name, HEALTHY), answers) - in_flight.get(spec.name, 0))
        for spec in specs
        if (answers := answers_for(spec, model, role)) is not None
    )


def places(spec: EndpointSpec, health: EndpointHealth, model: str) -> int:
    """Requests for `model` that `spec` takes at a time, as it stands."""
    if not health.usable(model):
        return 0
    return 1 if health.on_trial else spec.max_concurrency


def _burden(
    spec: EndpointSpec,
    health: Mapping[str, EndpointHealth],
    in_flight: Mapping[str, int],
    *,
    trickle: bool,
) -> tuple[bool, float, float]:
    now, standing = in_flight.get(spec.name, 0), health.get(spec.name, HEALTHY)
    put_off = standing.slow and not (trickle and now == 0)
    pace = 1.0 if standing.pace is None else standing.pace
    return put_off, now / spec.max_concurrency, pace


def batch_roles(
    failover: Failover,
    model: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
) -> tuple[str, ...]:
    """The role that a job's next chunk may go to: a worse one only while no better one is usable.

    Endpoints that are merely full are waited for: batch has time. A model that no primary serves is
    a backup's own.
    """
    allowed = _allowed(failover, model, specs)
    found = (role for role in allowed if usable(model, specs, health, role))
    return (next(found, PRIMARY),)


def another_does(
    failover: Failover,
    model: str,
    name: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
) -> bool:
    """Whether a job's work for `model` goes on, at once or by itself later, at another of `specs`
    than the one called `name`. One that merely cools down is waited for."""
    allowed = _allowed(failover, model, specs)
    return any(
        spec.name != name
        and (answers := answers_for(spec, model, role)) is not None
        and health.get(spec.name, HEALTHY).comes_back(answers)
        for spec in specs
        for role in allowed
    )


def open_to(failover: Failover, model: str, specs: Sequence[EndpointSpec]) -> list[Choice]:
    """The endpoints that a job with `failover` may ever go to for `model`, well or not."""
    allowed = _allowed(failover, model, specs)
    return [
        Choice(spec, answers)
        for spec in specs
        if spec.role in allowed and (answers := answers_for(spec, model, spec.role)) is not None
    ]


def _allowed(failover: Failover, model: str, specs: Sequence[EndpointSpec]) -> tuple[str, ...]:
    if any(answers_for(spec, model, PRIMARY) for spec in specs):
        return _ALLOWED[failover]
    return _ALLOWED[max(failover, Failover.BACKUP, key=list(Failover).index)]


_ALLOWED: Mapping[Failover, tuple[str, ...]] = {
    Failover.WAIT: (PRIMARY,),
    Failover.BACKUP: (PRIMARY, BACKUP),
    Failover.DEGRADED: (PRIMARY, BACKUP, DEGRADED),
}
