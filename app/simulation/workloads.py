"""Who asks for what, and when: every workload of the simulator, seeded.

A workload draws its people (arrival times, prompt and output lengths) from one seed, before the
run: every policy then meets the same people, and so does the run without batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from app.domain.throttle.values import PolicySettings
from app.errors import UnknownName

Times = NDArray[np.float64]
Rate = Callable[[Times], Times]
WARM_UP_S = 60.0
"""From a cold start; runs, and is not counted."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts: lognormal around `median`, cut to `least`..`most`; spread 0 is a constant."""

    median: float
    spread: float = 0.0
    least: int = 1
    most: int = 4_000

    def draw(self, rng: np.random.Generator, count: int) -> list[int]:
        drawn = self.median * np.exp(self.spread * rng.standard_normal(count))
        return [int(n) for n in np.clip(np.rint(drawn), self.least, self.most)]


@dataclass(frozen=True, slots=True)
class People:
    """The interactive side of one seeded run, in order of arrival."""

    arrive_s: list[float]
    prompts: list[int]
    outputs: list[int]


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load. `arrivals(rng, duration)` gives ascending times from 0 to `duration_s`."""

    name: str
    about: str
    arrivals: Callable[[np.random.Generator, float], Times]
    duration_s: float = 660.0
    prompt: Lengths = Lengths(300, 0.6, least=8)
    output: Lengths = Lengths(100, 0.6, least=20)
    batch_prompt: Lengths = Lengths(400, 0.4, least=8)
    batch_output: Lengths = Lengths(150, 0.4, least=1)
    streams: bool = True
    steps_s: tuple[float, ...] = ()
    """When the rate steps; settling is measured after each."""
    steady_s: tuple[tuple[float, float], ...] = ()
    """Spans of steady load, well after any step; the swing of the limit is measured there."""
    surges_s: tuple[tuple[float, float], ...] = ()
    """Spans in which the load surges; the 20 s after each are reported apart."""
    settings: PolicySettings = field(
        default_factory=lambda: PolicySettings(
            target_p95_ms=10_000.0, first_token_target_ms=500.0, per_token_target_ms=35.0
        )
    )
    """Targets. The whole-time target is that of a request with an output at P95 (268 tokens) which
    is just on its two other targets, so that the pressure rule is judged by the same promise."""

    def people(self, seed: int) -> People:
        rng = np.random.default_rng([seed, *self.name.encode()])
        times = self.arrivals(rng, self.duration_s)
        count = len(times)
        return People(
            [float(t) for t in times],
            self.prompt.draw(rng, count),
            self.output.draw(rng, count),
        )

    def batch_calls(self, seed: int, count: int) -> list[tuple[int, int]]:
        """(prompt, output) of the first `count` batch requests; a backlog without end."""
        rng = np.random.default_rng([seed, *self.name.encode(), 1])
        prompts = self.batch_prompt.draw(rng, count)
        return list(zip(prompts, self.batch_output.draw(rng, count), strict=True))


def poisson(rate: Rate, most: float) -> Callable[[np.random.Generator, float], Times]:
    """Arrivals at `rate(t)` per second, by thinning a stream of `most` per second."""

    def draw(rng: np.random.Generator, duration_s: float) -> Times:
        count = int(rng.poisson(most * duration_s))
        times = np.sort(rng.uniform(0.0, duration_s, count))
        kept: Times = times[rng.uniform(0.0, most, count) < rate(times)]
        return kept

    return draw


def gamma(rate: float, cv: float) -> Callable[[np.random.Generator, float], Times]:
    """Gaps from a Gamma distribution: mean 1/`rate`, coefficient of variation `cv`."""

    def draw(rng: np.random.Generator, duration_s: float) -> Times:
        shape = 1.0 / (cv * cv)
        count = int(rate * duration_s * 3 + 200 * cv * cv)
        times = np.cumsum(rng.gamma(shape, 1.0 / (rate * shape), count))
        kept: Times = times[times < duration_s]
        return kept

    return draw


def _constant(per_s: float) -> Callable[[np.random.Generator, float], Times]:
    return poisson(lambda t: np.full_like(t, per_s), per_s)


def _none(rng: np.random.Generator, duration_s: float) -> Times:
    return rng.uniform(0.0, duration_s, 0)


def _step(t: Times) -> Times:
    return np.where((t >= 260.0) & (t < 460.0), 10.0, 1.0)


def _diurnal(t: Times) -> Times:
    return 5.5 - 4.5 * np.cos(2 * np.pi * (t - WARM_UP_S) / 600.0)


def _spikes(t: Times) -> Times:
    phase = (t - WARM_UP_S) % 120.0
    return np.where((t >= WARM_UP_S) & (phase >= 60.0) & (phase < 70.0), 25.0, 1.0)


def _turns(t: Times) -> Times:
    return np.where(((t - WARM_UP_S) // 90.0) % 2 == 0, 1.0, 15.0)


def _workloads() -> list[Workload]:
    steady = ((120.0, 660.0),)
    five = Workload("poisson5", "5 requests a second", _constant(5.0), steady_s=steady)
    return [
        Workload("none", "nobody: batch alone", _none),
        Workload("sparse", "one request in 20 s", _constant(0.05), duration_s=1_860.0),
        Workload("poisson1", "1 request a second", _constant(1.0), steady_s=steady),
        five,
        Workload("poisson10", "10 requests a second", _constant(10.0), steady_s=steady),
        Workload(
            "step",
            "1, then 10 for 200 s, then 1 a second",
            poisson(_step, 10.0),
            steps_s=(260.0, 460.0),
            steady_s=((120.0, 260.0), (320.0, 460.0), (520.0, 660.0)),
            surges_s=((260.0, 460.0),),
        ),
        Workload("diurnal", "1 to 10 a second and back in 10 minutes", poisson(_diurnal, 10.0)),
        Workload("gamma1", "5 a second, gaps as Poisson's", gamma(5.0, 1.0)),
        Workload("gamma2", "5 a second in bursts (CV 2)", gamma(5.0, 2.0)),
        Workload("gamma4", "5 a second in heavy bursts (CV 4)", gamma(5.0, 4.0)),
        Workload(
            "spikes",
            "1 a second; 25 for 10 s every 2 minutes",
            poisson(_spikes, 25.0),
            surges_s=tuple((s, s + 10.0) for s in (120.0, 240.0, 360.0, 480.0, 600.0)),
        ),
        Workload(
            "light",
            "20 a second of 8 tokens each",
            _constant(20.0),
            prompt=Lengths(100, 0.4, least=8),
            output=Lengths(8),
            settings=PolicySettings(
                target_p95_ms=500.0, first_token_target_ms=500.0, per_token_target_ms=35.0
            ),
        ),
        replace(
            five,
            name="heavy",
            about="5 a second, few of them very long",
            prompt=Lengths(220, 1.2, least=8, most=6_000),
            output=Lengths(70, 1.2, least=20, most=3_000),
        ),
        replace(
            five,
            name="long_batch",
            about="5 a second beside batch outputs of 1,500 tokens",
            batch_output=Lengths(1_500, 0.2),
        ),
        Workload(
            "embeddings",
            "10 single texts a second beside batch requests of 16 texts",
            _constant(10.0),
            prompt=Lengths(30, 0.6, least=4, most=512),
            output=Lengths(1),
            batch_prompt=Lengths(2_048, 0.2),
            batch_output=Lengths(1),
            streams=False,
            settings=PolicySettings(
                target_p95_ms=500.0, first_token_target_ms=500.0, per_token_target_ms=35.0
            ),
        ),
        Workload(
            "turns",
            "1 and 15 a second in turns of 90 s",
            poisson(_turns, 15.0),
            steps_s=(150.0, 240.0, 330.0, 420.0, 510.0, 600.0),
            surges_s=((150.0, 240.0), (330.0, 420.0), (510.0, 600.0)),
        ),
    ]


WORKLOADS: Mapping[str, Workload] = MappingProxyType({w.name: w for w in _workloads()})


def workload(name: str) -> Workload:
    """The workload called `name`; UnknownName lists those there are."""
    try:
        return WORKLOADS[name]
    except KeyError:
        raise UnknownName("workload", name, list(WORKLOADS)) from None
