"""What a run is made of and what it leaves behind: faults, setup, trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.domain.throttle.values import Bounds, PolicySettings
from app.domain.throttle.yielding import YieldSettings
from app.simulation.server import Call, ServerModel
from app.simulation.workloads import Workload

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS = Bounds(total=256, reserve=8, pool="simulated")
TAIL_S = 30.0
"""The run goes on so long after the last arrival that counts, so that everybody can end."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong from `start_s` to `end_s`; a step of the clock lasts."""

    name: str
    about: str
    start_s: float = 300.0
    end_s: float = 360.0
    blind: bool = False
    """No reading reaches the controller."""
    gauges_gone: bool = False
    silent: bool = False
    """The controller does not run."""
    database_gone: bool = False
    """No claim, no tick; nobody can start anything new through Giveway."""
    slow_engine: float = 1.0
    """The first engine's steps take so many times longer."""
    refuse_over: int | None = None
    """The endpoint answers 429 while more than this are in flight."""
    clock_step_s: float = 0.0

    def active(self, t: float) -> bool:
        return self.start_s <= t < self.end_s


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run depends on, its seed included."""

    workload: Workload
    seed: int
    policy: PolicySettings
    bounds: Bounds = BOUNDS
    server: ServerModel = field(default_factory=ServerModel)
    engines: int = 1
    batch: bool = True
    people: bool = True
    fault: Fault | None = None
    tick_s: float = 1.0
    claim_s: float = 0.01
    """From the end of one batch call to the start of the next: checkpoint and claim."""
    yields: YieldSettings | None = field(default_factory=YieldSettings)
    yield_after_s: float = 0.5
    """From the tick that asks to the closing of the call."""
    feed_forward: bool = True
    """Whether claims see the people who came since the tick. With the next two, for ablations."""
    blame: bool = True
    """Whether people who came into a full house are kept from lowering the capacity."""
    probes: bool = True
    """Whether batch calls are timed, and speak for people where those are few."""
    memory: bool = True
    """Whether the endpoint tells how large its KV memory is."""
    deadline_places: int | None = None
    """Places that jobs with a deadline need all the time to make it. None: no job has one."""
    limits: tuple[float, ...] | None = None
    """A limit for each second from 0 on, obeyed at claims instead of a policy's (the oracle)."""


@dataclass(slots=True)
class Trace:
    """What one run left behind. Arrays hold one value a tick."""

    people: list[Call] = field(default_factory=list)
    t: list[float] = field(default_factory=list)
    limit: list[int] = field(default_factory=list)
    batch_in_flight: list[int] = field(default_factory=list)
    interactive_in_flight: list[int] = field(default_factory=list)
    batch_tokens: list[float] = field(default_factory=list)
    """Batch work done since the start and not thrown away: tokens read and given."""
    reasons: list[str] = field(default_factory=list)
    wasted_tokens: float = 0.0
    batch_done: int = 0
    most_in_flight: int = 0
    refused_people: int = 0
    preemptions: int = 0
