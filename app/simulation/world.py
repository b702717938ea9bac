"""One run: people, a batch backlog, engines and the throttle, in virtual time.

The throttle is production's: `decide` at every tick from a reading, `limit_now` at every claim,
`victims` for places taken back. The world plays the rest: claims, micro-batches, the clock, faults.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.feedforward import blaming
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.samples import NEAR_X, Sample, nearest_rank, x_of
from app.domain.throttle.values import Bounds, PolicySettings, State
from app.domain.throttle.yielding import Held, YieldSettings, victims
from app.simulation.server import Call, Engine, ServerModel
from app.simulation.workloads import WARM_UP_S, Workload

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
    most_over_limit_starts: int = 0
    """Batch calls that began although the limit in force was reached; any is a fault."""
    refused_people: int = 0


class _Event(IntEnum):
    TICK = 0
    CLAIM = 1
    CLOSE = 2
    RETRY = 3


class World:
    """The state of one run. Build it, `run()` it once, read its trace."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.trace = Trace()
        self.state = State()
        self.engines = [Engine(setup.server, self._ended) for _ in range(setup.engines)]
        self._home: dict[Call, Engine] = {}
        self._people = setup.workload.people(setup.seed) if setup.people else None
        self._next_person = 0
        self._backlog = setup.workload.batch_calls(setup.seed, 4_096)
        self._next_batch = 0
        self._events: list[tuple[float, int, _Event, object]] = []
        self._serial = 0
        self._flying: dict[Call, None] = {}
        self._held: dict[Call, float] = {}
        self._claiming = 0
        self._queue: deque[Call] = deque()
        self._placed = 0
        self._recent: deque[tuple[float, Call]] = deque()
        self._arrived: deque[float] = deque()
        self._peak = 0
        self._refused = 0
        self._done_tokens = 0.0
        self._done_at: deque[tuple[float, float, float]] = deque()
        self._probes: deque[tuple[float, float]] = deque()
        self._preemptions = 0
        self._clock_s = 0.0

    def run(self) -> Trace:
        end_s = self.setup.workload.duration_s + TAIL_S
        if self.setup.batch or self.setup.limits is None:
            self._push(0.0, _Event.TICK, None)
        while (t := self._next_time()) <= end_s:
            for engine in self.engines:
                engine.until = t
                engine.run()
            self._happen(self._next_time())
        for engine in self.engines:
            engine.until = end_s
            engine.run()
        return self.trace

    # -- events ----------------------------------------------------------------------------------

    def _push(self, t: float, kind: _Event, what: object) -> None:
        self._serial += 1
        heapq.heappush(self._events, (t, self._serial, kind, what))
        for engine in self.engines:
            engine.until = min(engine.until, t)

    def _next_time(self) -> float:
        t = self._events[0][0] if self._events else float("inf")
        if self._people is not None and self._next_person < len(self._people.arrive_s):
            t = min(t, self._people.arrive_s[self._next_person])
        return t

    def _happen(self, t: float) -> None:
        people = self._people
        while people is not None and self._next_person < len(people.arrive_s):
            i = self._next_person
            if people.arrive_s[i] > t:
                break
            self._next_person += 1
            self._arrive(people.arrive_s[i], people.prompts[i], people.outputs[i])
        while self._events and self._events[0][0] <= t:
            at, _, kind, what = heapq.heappop(self._events)
            match kind:
                case _Event.TICK:
                    self._tick(at)
                    self._push(at + self.setup.tick_s, _Event.TICK, None)
                case _Event.CLAIM:
                    self._claiming -= 1
                    self._claim(at)
                case _Event.CLOSE if isinstance(what, Call):
                    self._close(what, at)
                case _Event.RETRY if isinstance(what, Call):
                    self._send(what, at)

    # -- people ----------------------------------------------------------------------------------

    def _arrive(self, t: float, prompt: int, output: int) -> None:
        call = Call(t, prompt, output, batch=False, streams=self.setup.workload.streams)
        call.ahead = len(self._flying)
        self.trace.people.append(call)
        self._flying[call] = None
        self._arrived.append(t)
        self._peak = max(self._peak, len(self._flying))
        self._queue.append(call)
        self._place_people(t)

    def _place_people(self, t: float) -> None:
        """People in order of arrival, while the pool has places for both classes together."""
        while self._queue and self._placed + len(self._held) < self.setup.bounds.total:
            if self._fault_on(t, "database_gone"):
                return
            self._placed += 1
            self._send(self._queue.popleft(), t)

    def _send(self, call: Call, t: float) -> None:
        engine = min(self.engines, key=lambda e: e.running + e.queued)
        fault = self.setup.fault
        if fault is not None and fault.refuse_over is not None and fault.active(t):
            flying = sum(e.running + e.queued for e in self.engines)
            if flying >= fault.refuse_over:
                self._refused += 1
                if call.batch:
                    self._drop(call)
                    self._claim_later(t + 1.0)
                else:
                    call.refused = True
                    self.trace.refused_people += 1
                    self._push(t + 0.5, _Event.RETRY, call)
                return
        self._home[call] = engine
        engine.submit(call)
        self.trace.most_in_flight = max(self.trace.most_in_flight, self._placed + len(self._held))

    def _ended(self, call: Call, engine: Engine) -> None:
        t = engine.now
        self._home.pop(call, None)
        if not call.batch:
            self._flying.pop(call, None)
            self._placed -= 1
            sample = self._sample(call, t)
            x = x_of(sample, self.setup.policy)
            call.x = x if x is not None else 0.0
            self._recent.append((t, call))
            self._place_people(t)
            return
        begun = self._held.pop(call)
        work = float(call.prompt + call.output)
        self._done_tokens += work
        self.trace.batch_done += 1
        self._done_at.append((t, work, t - begun))
        timed = self.setup.probes and call.streams and call.output > 1
        if timed and call.first_at is not None:
            policy = self.setup.policy
            first = (call.first_at - call.submitted_at) * 1000.0 / policy.first_token_target_ms
            each = (t - call.first_at) * 1000.0 / (call.output - 1) / policy.per_token_target_ms
            self._probes.append((t, max(first, each)))
        self._place_people(t)
        self._claim_later(t + self.setup.claim_s)

    def _sample(self, call: Call, t: float) -> Sample:
        ended = call.ended_at is not None
        end = call.ended_at if call.ended_at is not None else t
        first = call.first_at
        return Sample(
            age_ms=(end - call.submitted_at) * 1000.0,
            first_token_ms=None
            if first is None or not call.streams
            else (first - call.submitted_at) * 1000.0,
            output_tokens=call.output if ended else None,
            finished=ended,
            streams=call.streams,
            ahead=call.ahead,
        )

    # -- batch -----------------------------------------------------------------------------------

    def _limit_now(self, t: float) -> int:
        setup = self.setup
        if setup.limits is not None:
            return setup.bounds.clamp(setup.limits[min(int(t), len(setup.limits) - 1)])
        if not setup.feed_forward:
            return self.state.limit
        return limit_now(self.state, len(self._flying), setup.bounds, self._now(t))

    def _claim_later(self, t: float) -> None:
        self._claiming += 1
        self._push(t, _Event.CLAIM, None)

    def _claim(self, t: float) -> None:
        """Fill the places that the limit leaves; what is over the limit starts nothing new."""
        if not self.setup.batch or self._fault_on(t, "database_gone"):
            return
        limit = self._limit_now(t)
        while len(self._held) < limit and self._placed + len(self._held) < self.setup.bounds.total:
            prompt, output = self._backlog[self._next_batch % len(self._backlog)]
            self._next_batch += 1
            call = Call(t, prompt, output, batch=True)
            self._held[call] = t
            before = self._refused
            self._send(call, t)
            if self._refused > before:
                return

    def _drop(self, call: Call) -> None:
        self._held.pop(call, None)

    def _close(self, call: Call, t: float) -> None:
        engine = self._home.pop(call, None)
        if engine is None or call.ended_at is not None or call not in self._held:
            return
        if len(self._held) <= self._limit_now(t):
            self._home[call] = engine
            return
        self.trace.wasted_tokens += engine.work_of(call)
        engine.close(call)
        self._held.pop(call)
        self._place_people(t)

    def _take_back(self, t: float) -> None:
        settings = self.setup.yields
        if settings is None:
            return
        limit = self._limit_now(t)
        if len(self._held) <= limit:
            return
        oldest = max((t - c.submitted_at for c in self._flying if c.first_at is None), default=0.0)
        mean_s = self._round_trip_s(t)
        over = len(self._held) - limit
        # Calls end one after the other over about one round trip.
        drain_s = mean_s * over / max(1, len(self._held))
        held = [
            Held(f"{i:06d}", t - begun, self._home[call].work_of(call))
            for i, (call, begun) in enumerate(self._held.items())
            if call in self._home
        ]
        calls = {f"{i:06d}": call for i, call in enumerate(self._held)}
        for victim in victims(
            held,
            limit,
            settings,
            oldest_waiting_s=oldest,
            drain_s=drain_s,
            work_tokens=self._done_tokens,
            wasted_tokens=self.trace.wasted_tokens,
        ):
            self._push(t + self.setup.yield_after_s, _Event.CLOSE, calls[victim.key])

    def _round_trip_s(self, t: float) -> float:
        recent = [trip for at, _, trip in self._done_at if at >= t - self.setup.policy.window_s]
        return sum(recent) / len(recent) if recent else 0.0

    # -- the controller --------------------------------------------------------------------------

    def _fault_on(self, t: float, what: str) -> bool:
        fault = self.setup.fault
        return fault is not None and bool(getattr(fault, what)) and fault.active(t)

    def _now(self, t: float) -> datetime:
        fault = self.setup.fault
        step_s = fault.clock_step_s if fault is not None and t >= fault.start_s else 0.0
        return EPOCH + timedelta(seconds=t + step_s)

    def _tick(self, t: float) -> None:
        setup, fault = self.setup, self.setup.fault
        if fault is not None:
            self.engines[0].slowness = fault.slow_engine if fault.active(t) else 1.0
        gone = self._fault_on(t, "database_gone")
        if setup.limits is None and not gone and not self._fault_on(t, "silent"):
            reading = None if self._fault_on(t, "blind") else self._reading(t)
            decision = decide(self.state, reading, setup.policy, setup.bounds, self._now(t))
            self.state = decision.state
            if setup.batch:
                self._take_back(t)
        elif setup.limits is not None and setup.batch:
            self._take_back(t)
        self._claim(t)
        self._place_people(t)
        self._refused = 0
        self._record(t)
        self._peak = len(self._flying)

    def _reading(self, t: float) -> Reading:  # noqa: PLR0912 - one pass, for speed
        policy = self.setup.policy
        since = t - policy.window_s
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        while self._probes and self._probes[0][0] < since:
            self._probes.popleft()
        while self._arrived and self._arrived[0] < since:
            self._arrived.popleft()
        while self._done_at and self._done_at[0][0] < since:
            self._done_at.popleft()
        xs: list[float] = []
        left_out = over = 0
        whole: list[float] = []
        blamed = blaming(policy, self.state, self.setup.bounds) if self.setup.blame else policy
        bound = blamed.people_capacity or math.inf
        for _, call in self._recent:
            x = call.x
            over += x > 1.0
            if call.ahead < bound:
                xs.append(x)
            else:
                left_out += 1
            assert call.ended_at is not None
            whole.append((call.ended_at - call.submitted_at) * 1000.0)
        waiting = late = 0
        oldest = 0.0
        for call in self._flying:
            sample = self._sample(call, t)
            ours = call.ahead < bound
            x = x_of(sample, policy) or 0.0
            over += x > 1.0
            if ours:
                xs.append(x)
            else:
                left_out += 1
            if call.first_at is None and call.streams:
                waiting += 1
                if ours:
                    oldest = max(oldest, sample.age_ms)
                    late += sample.age_ms > policy.first_token_target_ms
        xs.sort()
        whole.sort()
        window = policy.window_s
        trips = [trip for _, _, trip in self._done_at]
        preemptions = sum(e.preemptions for e in self.engines)
        rising, self._preemptions = preemptions > self._preemptions, preemptions
        gauges = None
        if not self._fault_on(t, "gauges_gone"):
            gauges = Gauges(
                engine_waiting=sum(e.queued for e in self.engines),
                engine_running=sum(e.running for e in self.engines),
                kv_usage=min(1.0, max(e.kv_usage for e in self.engines)),
                preemptions_rising=rising,
            )
        total = len(xs) + left_out
        return Reading(
            computed_at=self._now(t),
            window_s=window,
            arrivals_per_s=len(self._arrived) / window,
            completions_per_s=len(whole) / window,
            refused=self._refused,
            p50_ms=nearest_rank(whole, 0.50),
            p95_ms=nearest_rank(whole, 0.95),
            p99_ms=nearest_rank(whole, 0.99),
            share_over_target=over / total if total else None,
            samples=len(xs),
            misses=sum(x > 1.0 for x in xs),
            nears=sum(x > NEAR_X for x in xs),
            x_p95=nearest_rank(xs, 0.95),
            not_attributable=left_out,
            waiting=waiting,
            waiting_over_target=late,
            oldest_waiting_s=oldest / 1000.0,
            interactive_in_flight=len(self._flying),
            interactive_recent_peak=self._peak,
            batch_in_flight=len(self._held),
            batch_waiting=1_000,
            batch_per_s=sum(w for _, w, _ in self._done_at) / window,
            batch_round_trip_ms=1000.0 * sum(trips) / len(trips) if trips else None,
            batch_samples=len(self._probes),
            batch_x_p95=nearest_rank(sorted(x for _, x in self._probes), 0.95),
            gauges=gauges,
        )

    def _record(self, t: float) -> None:
        trace = self.trace
        flying = sum(self._home[c].work_of(c) for c in self._held if c in self._home)
        trace.t.append(t)
        trace.limit.append(self._limit_now(t))
        trace.batch_in_flight.append(len(self._held))
        trace.interactive_in_flight.append(len(self._flying))
        trace.batch_tokens.append(self._done_tokens + flying)
        trace.reasons.append(self.state.reason.value)


def simulate(setup: Setup) -> Trace:
    """One run, the same for the same setup."""
    return World(setup).run()


def without_batch(setup: Setup) -> Trace:
    """The same people, alone."""
    return simulate(replace(setup, batch=False, limits=None))


__all__ = ["WARM_UP_S", "Fault", "Setup", "Trace", "World", "simulate", "without_batch"]
