"""The two situations that are measured: an endpoint, its people and its backfill each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from benchmarks.throttle.corpus import Backfill, Summaries, Tags
from benchmarks.throttle.loads import Load, Phase


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A step takes (`step_ms` + `running_ms` · requests running + what it reads) / `speed`."""

    places: int
    speed: float
    step_ms: float
    running_ms: float


@dataclass(frozen=True, slots=True)
class Scene:
    """`rps` is what people reach in the step's surge.

    `calm` and `steady` are shares of it, `spike` a multiple. `step_s`, `spikes_s` and `steady_s`
    are lengths of phases in seconds: calm and surge in turns, beginning and ending calm.
    """

    name: str
    endpoint: Endpoint
    backfill: Backfill
    rps: float
    tokens: tuple[int, int]
    step_s: tuple[float, float, float]
    spikes_s: tuple[float, float, float, float, float]
    steady_s: float
    step_calm: float
    spikes_calm: float
    spike: float
    steady: float
    caps: tuple[int, ...]
    workers: tuple[int, ...] = ()
    """Of further priority queues, besides the one with a worker for each place."""
    short_output_tokens: int | None = None
    """What Giveway is told; None: as it comes."""

    @property
    def stem(self) -> str:
        """What files of its results are called."""
        return "throttle" if self is CHATS else f"throttle-{self.name}"

    def load(self, name: str, scale: float, rps: float) -> Load:
        """One of `LOADS`, its calm phases stretched by `scale`."""
        if name == "steady":
            return Load(name, (Phase(self.steady_s * scale, rps * self.steady),), self.tokens)
        calm, surge, lengths = self.step_calm * rps, rps, self.step_s
        if name == "spikes":
            calm, surge = self.spikes_calm * rps, self.spike * rps
            lengths = self.spikes_s  # type: ignore[assignment]
        phases = tuple(
            Phase(seconds if at % 2 else seconds * scale, surge if at % 2 else calm)
            for at, seconds in enumerate(lengths)
        )
        return Load(name, phases, self.tokens)


LOADS = ("step", "spikes", "steady")
"""In the order in which they are run: a law that learns is judged in steady load by what it does
once it has learnt, and in the step by how it learns."""

CHATS = Scene(
    name="chats",
    # An engine on which every request that runs slows all others: 12.5 ms, and 0.8 ms for each.
    endpoint=Endpoint(places=40, speed=1.0, step_ms=12.5, running_ms=0.8),
    backfill=Summaries(),
    rps=10.5,
    tokens=(40, 56),
    step_s=(14, 14, 22),
    spikes_s=(8, 8, 22, 8, 10),
    steady_s=40,
    step_calm=0.1,
    spikes_calm=0.1,
    spike=1.05,
    steady=0.62,
    caps=(4, 6, 8, 10, 12),
    workers=(22,),
)
EMBEDDINGS = Scene(
    name="embeddings",
    # 8.5 people a second want 24 tokens each of 8 places that give 40 tokens a second: alone they
    # fill two thirds of it in a surge, and a third in steady load.
    endpoint=Endpoint(places=8, speed=0.5, step_ms=12.5, running_ms=0.02),
    backfill=Tags(),
    rps=8.5,
    tokens=(16, 32),
    step_s=(12, 14, 14),
    spikes_s=(8, 5, 25, 5, 7),
    steady_s=24,
    step_calm=0.1,
    spikes_calm=0.2,
    spike=1.2,
    steady=0.5,
    caps=(1, 2, 3, 5),
    # Every answer is held to its whole time, which is what the comparison judges.
    short_output_tokens=32,
)
SCENES: Mapping[str, Scene] = MappingProxyType({one.name: one for one in (CHATS, EMBEDDINGS)})
