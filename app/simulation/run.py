"""Policies side by side on the same people: what `giveway simulate` and the benchmark run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.domain.throttle.policies import named
from app.domain.throttle.values import PolicySettings
from app.errors import ConfigError
from app.simulation import measure, oracle, signs
from app.simulation.results import RunResult
from app.simulation.setup import Fault, Setup, Trace
from app.simulation.workloads import Workload, workload
from app.simulation.world import simulate, without_batch

TUNABLE: Mapping[str, str] = {"static": "cap", "pressure": "max"}
"""The one number that a name like `static:16` sets."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy as it is named on the command line: `budget`, `static:16`, `pressure:64`."""

    label: str
    policy: str
    options: Mapping[str, float]

    @classmethod
    def parse(cls, text: str) -> Contender:
        """UnknownName: no such policy. ConfigError: a number where the policy takes none."""
        name, _, number = text.strip().partition(":")
        named(name)
        if not number:
            return cls(name, name, {})
        if name not in TUNABLE:
            known = ", ".join(f"{policy}:{option}" for policy, option in TUNABLE.items())
            raise ConfigError(f"policy {name!r} takes no number; these do: {known}")
        try:
            value = float(number)
        except ValueError:
            raise ConfigError(f"{text!r}: {number!r} is no number") from None
        return cls(text.strip(), name, {TUNABLE[name]: value})

    def settings(self, load: Workload) -> PolicySettings:
        return replace(load.settings, name=self.policy, options=self.options)


@dataclass(frozen=True, slots=True)
class Ground:
    """What every policy is held against on one workload and seed."""

    setup: Setup
    alone: Trace
    dedicated_tokens_per_s: float
    oracle: oracle.Found


@dataclass(frozen=True, slots=True)
class Run:
    """A result with the trace behind it, for charts."""

    result: RunResult
    trace: Trace


def ground(load: Workload, seed: int, *, engines: int = 1) -> Ground:
    """The run without batch, batch without people, and the oracle."""
    setup = Setup(load, seed, replace(load.settings, name="budget"), engines=engines)
    alone = without_batch(setup)
    every_place = (float(setup.bounds.ceiling),)
    dedicated = simulate(replace(setup, people=False, limits=every_place))
    hint = simulate(setup).limit
    return Ground(
        setup,
        alone,
        measure.batch_tokens_per_s(dedicated, load),
        oracle.find(setup, alone, [hint]),
    )


def run_one(contender: Contender, base: Ground, fault: Fault | None = None) -> Run:
    """One policy on this ground. With a fault, "without batch" has the same fault."""
    load = base.setup.workload
    setup = replace(base.setup, policy=contender.settings(load), fault=fault)
    if contender.policy == "oracle":
        setup = replace(setup, limits=base.oracle.limits)
    trace = simulate(setup)
    alone = base.alone if fault is None else without_batch(setup)
    return Run(_result(contender.label, base, setup, trace, alone), trace)


def run_all(
    contenders: Sequence[Contender],
    workloads: Sequence[str],
    seeds: Sequence[int],
    *,
    fault: Fault | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Run]:
    """Every contender on every workload and seed, in that order of nesting from the inside out."""
    engines = 3 if fault is not None and fault.slow_engine != 1.0 else 1
    for name in workloads:
        load = workload(name)
        for seed in seeds:
            progress(f"{name}, seed {seed}: without batch, dedicated, oracle")
            base = ground(load, seed, engines=engines)
            for contender in contenders:
                progress(f"{name}, seed {seed}: {contender.label}")
                yield run_one(contender, base, fault)


def _result(label: str, base: Ground, setup: Setup, trace: Trace, lonely: Trace) -> RunResult:
    load = setup.workload
    people, alone = measure.counted(trace, load), measure.counted(lonely, load)
    work = measure.batch_tokens_per_s(trace, load)
    after = measure.after_surges(people, load)
    told = (
        signs.people(measure.longest_late_s(people, alone)),
        signs.backlog(measure.longest_still_s(trace), trace.batch_done),
        signs.total(trace.most_in_flight, setup.bounds.total),
    )
    done = trace.batch_tokens[-1] if trace.batch_tokens else 0.0
    return RunResult(
        policy=label,
        workload=load.name,
        seed=setup.seed,
        fault=setup.fault.name if setup.fault is not None else None,
        on_target=measure.on_target(people),
        on_target_without_batch=measure.on_target(alone),
        on_target_oracle=base.oracle.on_target,
        on_target_after_surges=measure.on_target(after) if after else None,
        work_share_of_oracle=_share(work, base.oracle.tokens_per_s),
        work_share_of_dedicated=_share(work, base.dedicated_tokens_per_s),
        batch_tokens_per_s=work,
        wasted_share=_share(trace.wasted_tokens, done),
        settle_s=measure.settle_s(trace, load),
        limit_swing=measure.limit_swing(trace, load),
        p50_ms=measure.whole_ms(people, 0.50),
        p95_ms=measure.whole_ms(people, 0.95),
        p99_ms=measure.whole_ms(people, 0.99),
        p50_ms_without_batch=measure.whole_ms(alone, 0.50),
        p95_ms_without_batch=measure.whole_ms(alone, 0.95),
        p99_ms_without_batch=measure.whole_ms(alone, 0.99),
        first_token_p50_ms=measure.first_token_ms(people, 0.50),
        first_token_p95_ms=measure.first_token_ms(people, 0.95),
        first_token_p99_ms=measure.first_token_ms(people, 0.99),
        first_token_p95_ms_without_batch=measure.first_token_ms(alone, 0.95),
        per_token_p50_ms=measure.per_token_ms(people, 0.50),
        per_token_p95_ms=measure.per_token_ms(people, 0.95),
        per_token_p99_ms=measure.per_token_ms(people, 0.99),
        per_token_p95_ms_without_batch=measure.per_token_ms(alone, 0.95),
        requests=len(people),
        signs=(told[0].text, told[1].text, told[2].text),
        signs_kept=(told[0].kept, told[1].kept, told[2].kept),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
