"""The people: when each comes and what each asks, fixed before the run. The same for everyone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.throttle.corpus import WORDS

_PROMPT_WORDS = 56


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
    tokens: tuple[int, int] = (16, 32)
    """Least and most tokens of an answer, evenly spread."""

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


def arrivals(load: Load, seed: int) -> list[Arrival]:
    """Everybody, in order. The same load and seed give the same people."""
    chance = random.Random(f"{load.name}/{seed}")
    found: list[Arrival] = []
    begin_s = 0.0
    for phase in load.phases:
        at_s = begin_s + chance.expovariate(phase.rps)
        while at_s < begin_s + phase.seconds:
            found.append(Arrival(at_s, chance.randint(*load.tokens), _prompt(chance)))
            at_s += chance.expovariate(phase.rps)
        begin_s += phase.seconds
    return found


def _prompt(chance: random.Random) -> str:
    """One sentence as long as the longest answer, which is made of its words."""
    words: Sequence[str] = chance.choices(WORDS, k=_PROMPT_WORDS)
    return " ".join(words)
