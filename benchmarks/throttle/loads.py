"""The people: when each comes and what each asks, fixed before the run. The same for everyone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LEAST_TOKENS, MOST_TOKENS = 16, 32
"""Length of an answer, evenly spread."""
_PROMPT_WORDS = 56
_WORDS = """
    queue latency batch people index shard cache vector token prompt answer model endpoint lease
    chunk retry limit window reading pressure policy worker broker schedule invoice order refund
    parcel garden river bridge winter harvest engine pilot letter museum theatre violin recipe
""".split()  # noqa: SIM905 - a list of forty words is not for reading


@dataclass(frozen=True, slots=True)
class Phase:
    """`rps` requests a second on average (Poisson) for `seconds`."""

    seconds: float
    rps: float


@dataclass(frozen=True, slots=True)
class Load:
    """Phases one after the other. Surges are those phases in which more people come than before."""

    name: str
    phases: tuple[Phase, ...]

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def surges(self) -> list[tuple[float, float]]:
        """(begin, end) of the busiest phases, in seconds; none where the load is steady."""
        most = max(phase.rps for phase in self.phases)
        if most == min(phase.rps for phase in self.phases):
            return []
        found, at_s = [], 0.0
        for phase in self.phases:
            if phase.rps == most:
                found.append((at_s, at_s + phase.seconds))
            at_s += phase.seconds
        return found


@dataclass(frozen=True, slots=True)
class Arrival:
    """One person: due at `due_s`, wants `tokens` tokens."""

    due_s: float
    tokens: int
    prompt: str


def steady(scale: float, rps: float) -> Load:
    """The same all the time: half of what people reach in a surge."""
    return Load("steady", (Phase(24 * scale, rps / 2),))


def step(scale: float, rps: float) -> Load:
    """1 → 10 → 1, where 10 stands for `rps`."""
    calm, surge = rps / 10, rps
    return Load(
        "step", (Phase(12 * scale, calm), Phase(14 * scale, surge), Phase(14 * scale, calm))
    )


def spikes(scale: float, rps: float) -> Load:
    """Five seconds of a fifth more than `rps`, every thirty; a fifth of `rps` in between."""
    calm, spike = rps / 5, Phase(5, rps * 1.2)
    return Load(
        "spikes", (Phase(8, calm), spike, Phase(25 * scale, calm), spike, Phase(7 * scale, calm))
    )


LOADS: Mapping[str, Callable[[float, float], Load]] = {
    "step": step,
    "spikes": spikes,
    "steady": steady,
}
"""In the order in which they are run: a law that learns is judged in steady load by what it does
once it has learnt, and in the step by how it learns."""


def arrivals(load: Load, seed: int) -> list[Arrival]:
    """Everybody, in order. The same load and seed give the same people."""
    chance = random.Random(f"{load.name}/{seed}")
    found: list[Arrival] = []
    begin_s = 0.0
    for phase in load.phases:
        at_s = begin_s + chance.expovariate(phase.rps)
        while at_s < begin_s + phase.seconds:
            tokens = chance.randint(LEAST_TOKENS, MOST_TOKENS)
            found.append(Arrival(at_s, tokens, _prompt(chance)))
            at_s += chance.expovariate(phase.rps)
        begin_s += phase.seconds
    return found


def _prompt(chance: random.Random) -> str:
    """One sentence longer than the longest answer, which is made of its words."""
    words: Sequence[str] = chance.choices(_WORDS, k=_PROMPT_WORDS)
    return " ".join(words)
