"""One run: people, a batch backlog, engines and the throttle, in virtual time.

The throttle is production's: `decide` at every tick from a reading, `limit_now` at every claim,
`victims` for places taken back. The world plays the rest: claims, micro-batches, the clock, faults.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from enum import IntEnum

from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.feedforward import blaming
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import State
from app.domain.throttle.yielding import Held, victims
from app.simulation.server import Call, Engine
from app.simulation.setup import EPOCH, TAIL_S, Setup, Trace
from app.simulation.window import Now, Window


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
        self._queue: deque[Call] = deque()
        self._placed = 0
        self._window = Window(setup.policy)
        self._peak = 0
        self._refused = 0
        self._done_tokens = 0.0
        self._preemptions = 0

    def run(self) -> Trace:
        end_s = self.setup.workload.duration_s + TAIL_S
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
        self._window.person_came(t)
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
            self._window.person_ended(call, t)
            self._place_people(t)
            return
        begun = self._held.pop(call)
        self._done_tokens += call.prompt + call.output
        self.trace.batch_done += 1
        self._window.batch_ended(call, t, t - begun, probe=self.setup.probes)
        self._place_people(t)
        self._claim_later(t + self.setup.claim_s)

    # -- batch -----------------------------------------------------------------------------------

    def _limit_now(self, t: float) -> int:
        setup = self.setup
        if setup.limits is not None:
            return setup.bounds.clamp(setup.limits[min(int(t), len(setup.limits) - 1)])
        if not setup.feed_forward:
            return self.state.limit
        return limit_now(self.state, len(self._flying), setup.bounds, self._now(t))

    def _claim_later(self, t: float) -> None:
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
        over = len(self._held) - limit
        # Calls end one after the other over about one round trip.
        drain_s = self._window.round_trip_s(t) * over / max(1, len(self._held))
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
        if not setup.batch:
            pass  # Nothing is limited, so nothing is decided.
        elif setup.limits is not None:
            self._take_back(t)
        elif not gone and not self._fault_on(t, "silent"):
            reading = None if self._fault_on(t, "blind") else self._reading(t)
            decision = decide(
                self.state,
                reading,
                setup.policy,
                setup.bounds,
                self._now(t),
                deadline_places=setup.deadline_places,
            )
            self.state = decision.state
            self._take_back(t)
        self._claim(t)
        self._place_people(t)
        self._refused = 0
        self._record(t)
        self._peak = len(self._flying)

    def _reading(self, t: float) -> Reading:
        setup = self.setup
        policy = blaming(setup.policy, self.state, setup.bounds) if setup.blame else setup.policy
        now = Now(
            at=self._now(t),
            flying=self._flying,
            peak=self._peak,
            batch_in_flight=len(self._held),
            refused=self._refused,
            gauges=None if self._fault_on(t, "gauges_gone") else self._gauges(),
        )
        return self._window.reading(t, now, policy.people_capacity, policy.answered_at)

    def _gauges(self) -> Gauges:
        setup = self.setup
        preemptions = sum(e.preemptions for e in self.engines)
        rising, self._preemptions = preemptions > self._preemptions, preemptions
        return Gauges(
            engine_waiting=sum(e.queued for e in self.engines),
            engine_running=sum(e.running for e in self.engines),
            kv_usage=min(1.0, max(e.kv_usage for e in self.engines)),
            preemptions_rising=rising,
            kv_capacity_tokens=len(self.engines) * setup.server.kv_tokens if setup.memory else None,
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
        trace.preemptions = sum(e.preemptions for e in self.engines)


def simulate(setup: Setup) -> Trace:
    """One run, the same for the same setup."""
    return World(setup).run()


def without_batch(setup: Setup) -> Trace:
    """The same people, alone."""
    return simulate(replace(setup, batch=False, limits=None))
