"""Measuring an endpoint: alone, with more and more in flight, at a rising rate, with batches."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app import errors
from app.domain.calibration.findings import targets_of
from app.domain.calibration.measured import (
    BatchSize,
    Idle,
    Level,
    Measured,
    PromptPoint,
    RateStep,
    TimedCall,
    idle_of,
    level_of,
)
from app.domain.calibration.plan import BATCH_SIZES, PROMPT_WORDS, Plan
from app.domain.routing import EndpointSpec
from app.inference.probing import Probe, Shape, kept_in_flight, sent_at_rate
from app.inference.wires import Wires

_FIRST_CALL_S = 120.0
_EMBED_WORDS = 24
_LOOKS = 4
_LOOK_S = 0.2
_SEED = 20_260_101

Told = Callable[[str, float, float, str], None]
"""Progress: the stage in words, how far it is, how far it goes, and the unit of both."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The endpoint and the models that are measured."""

    spec: EndpointSpec
    chat_model: str
    embed_model: str | None


class Calibration:
    """The use case. It stores nothing and runs beside a stack or without one."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires

    def traffic(self, spec: EndpointSpec) -> int | None:
        """Most requests seen in the endpoint in a second; None: it does not tell."""
        seen = []
        for look in range(_LOOKS):
            if look:
                time.sleep(_LOOK_S)
            try:
                told = self._wires.of(spec).metrics(deadline_s=2.0)
            except errors.EndpointError:
                continue
            if told.running is not None or told.waiting is not None:
                seen.append((told.running or 0) + (told.waiting or 0))
        return round(max(seen)) if seen else None

    def first_call_s(self, subject: Subject, plan: Plan) -> float:
        """Seconds of one call that is alone, after one to warm up. Raises EndpointError, and
        UsageError where the answer shows nothing to time."""
        with _probing(self._wires, subject) as probe:
            shape = _shape(subject, plan, _FIRST_CALL_S)
            for call in (_answered(probe, shape), _answered(probe, shape)):
                total_ms = call.total_ms or 0.0
                if call.per_token_ms is None:
                    raise errors.UsageError(
                        f"model {subject.chat_model!r} at endpoint {subject.spec.name!r} does not "
                        "stream its answers token by token; time per token cannot be measured"
                    )
        return total_ms / 1000

    def measure(self, subject: Subject, plan: Plan, call_s: float, told: Told) -> Measured:
        """All stages; `call_s` is what `first_call_s` found. Raises EndpointError where even the
        gentle stages fail, and UsageError where no call can keep the target.
        """
        with _probing(self._wires, subject) as probe:
            shape = _shape(subject, plan, max(10.0, 20 * call_s))
            idle = _alone(probe, shape, plan, told)
            target_ms = plan.target_ms(idle.p95_ms)
            levels = _levels(probe, shape, plan, subject.spec.max_concurrency, told)
            prompts = _prompts(probe, shape, plan, told)
            bound_ms = targets_of(target_ms, idle).first_token_ms / 2
            sizes = _sizes(probe, subject.embed_model, plan, bound_ms, shape.deadline_s, told)
            capacity_rps = max(level.tokens_per_s for level in levels) / idle.output_tokens
            ramp = _Ramp(probe, shape, plan, target_ms, subject.spec.max_concurrency, told)
            steps = ramp.run(plan.rates(capacity_rps))
        return Measured(idle, levels, prompts, steps, sizes, target_ms)


@contextmanager
def _probing(wires: Wires, subject: Subject) -> Iterator[Probe]:
    """A probe whose calls are closed when this ends in any way, Ctrl-C among them."""
    probe = Probe(wires.of(subject.spec), _SEED)
    try:
        yield probe
    finally:
        probe.stop.set()


def _shape(subject: Subject, plan: Plan, deadline_s: float) -> Shape:
    return Shape(subject.chat_model, plan.prompt_words, plan.max_tokens, deadline_s)


def _answered(probe: Probe, shape: Shape) -> TimedCall:
    """One call that must succeed while nobody else is there."""
    call = probe.call(shape)
    if call.error is not None:
        raise errors.EndpointError(
            f"a single call to model {shape.model!r} failed, so nothing was measured: {call.why}"
        )
    return call


def _alone(probe: Probe, shape: Shape, plan: Plan, told: Told) -> Idle:
    calls = []
    for number in range(plan.idle_calls):
        told("one call at a time", number, plan.idle_calls, "calls")
        calls.append(_answered(probe, shape))
    return idle_of(calls)


def _levels(
    probe: Probe, shape: Shape, plan: Plan, max_concurrency: int, told: Told
) -> tuple[Level, ...]:
    """Numbers in flight until one is refused; the endpoint bears at least one."""
    found: list[Level] = []
    wanted = plan.levels(max_concurrency)
    for number, running in enumerate(wanted):
        told(f"{running} in flight", number, len(wanted), "levels")
        calls, from_s, until_s = kept_in_flight(probe, shape, running, plan.level_s)
        level = level_of(running, calls, from_s, until_s)
        failed = [call.why for call in calls if call.error is not None]
        if failed or level is None:
            if not found:
                raise errors.EndpointError(f"calls one after the other failed: {failed}")
            break
        found.append(level)
    return tuple(found)


def _prompts(probe: Probe, shape: Shape, plan: Plan, told: Told) -> tuple[PromptPoint, ...]:
    """Lengths of prompt, as far as the model takes them."""
    found = []
    for number, words in enumerate(PROMPT_WORDS):
        told(f"prompts of {words} words", number, len(PROMPT_WORDS), "lengths")
        longer = Shape(shape.model, words, 2, shape.deadline_s)
        calls = [probe.call(longer) for _ in range(plan.repeats)]
        firsts = [call.first_token_ms for call in calls if call.ended_s is not None]
        times = [first for first in firsts if first is not None]
        if not times:
            break
        tokens = statistics.fmean(call.prompt_tokens for call in calls if call.ended_s is not None)
        found.append(PromptPoint(tokens, statistics.median(times)))
    return tuple(found)


def _sizes(
    probe: Probe, model: str | None, plan: Plan, bound_ms: float, deadline_s: float, told: Told
) -> tuple[BatchSize, ...]:
    """Sizes of batch, up to the first whose call takes longer than `bound_ms` or is refused."""
    found: list[BatchSize] = []
    if model is None:
        return ()
    for number, items in enumerate(BATCH_SIZES):
        told(f"{items} texts a call", number, len(BATCH_SIZES), "sizes")
        try:
            calls = [
                probe.embed(model, items, _EMBED_WORDS, deadline_s) for _ in range(plan.repeats)
            ]
        except errors.EndpointError:
            break
        call_ms = statistics.median(ms for ms, _ in calls)
        found.append(BatchSize(items, max(tokens for _, tokens in calls), call_ms))
        if call_ms > bound_ms:
            break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Ramp:
    """Rising rates until the P95 leaves the target."""

    probe: Probe
    shape: Shape
    plan: Plan
    target_ms: float
    max_concurrency: int
    told: Told

    def run(self, rates: list[float]) -> tuple[RateStep, ...]:
        """The steps; the last is the first that does not keep the target, if any does not."""
        chance = random.Random(_SEED)  # noqa: S311 - chance, not secrecy
        steps: list[RateStep] = []
        for rps in rates:
            step = self._step(rps, chance)
            if not (step.keeps(self.target_ms) or step.errors or step.gave_up):
                # A few late calls may be chance: the rate is over when it is so for twice as long.
                step = step.merged(self._step(rps, chance))
            steps.append(step)
            if not step.keeps(self.target_ms):
                break
        return tuple(steps)

    def _step(self, rps: float, chance: random.Random) -> RateStep:
        seconds = self.plan.seconds_per_step
        return sent_at_rate(
            self.probe,
            self.shape,
            rps,
            seconds,
            chance,
            most_in_flight=min(512, max(16, 6 * self.max_concurrency)),
            most_wait_s=max(2.0, 4 * self.target_ms / 1000),
            told=lambda passed_s: self.told(f"{rps:.1f} requests a second", passed_s, seconds, "s"),
        )
