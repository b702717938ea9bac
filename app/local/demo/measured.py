"""What the demo measures: values, and the figures that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.domain.throttle.samples import nearest_rank

ALONE, UNTHROTTLED, THROTTLED = "alone", "unthrottled", "throttled"


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's request. `latency_ms` None: it failed."""

    sent_at_s: float
    """Since the demo's beginning."""
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class Sample:
    """The pool and the job at one moment."""

    at_s: float
    p95_ms: float | None
    limit: int
    in_flight: int
    reason: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One part of the demo. Without a backfill `total` is 0."""

    name: str
    began_s: float
    ended_s: float
    answers: tuple[Answer, ...]
    samples: tuple[Sample, ...] = ()
    total: int = 0
    done: int = 0
    failed_items: int = 0
    backfill_s: float = 0.0

    @property
    def latencies_ms(self) -> list[float]:
        """Of the requests that were answered, shortest first."""
        return sorted(a.latency_ms for a in self.answers if a.latency_ms is not None)

    def percentile_ms(self, share: float) -> float | None:
        """Nearest rank, as everywhere in Giveway."""
        return nearest_rank(self.latencies_ms, share)

    def share_on_target(self, target_ms: float) -> float | None:
        """Requests answered within the target among all that were sent; None: none were."""
        if not self.answers:
            return None
        return sum(ms <= target_ms for ms in self.latencies_ms) / len(self.answers)

    @property
    def items_per_s(self) -> float | None:
        """Of the backfill; None where there is none."""
        return self.done / self.backfill_s if self.backfill_s > 0 else None

    def document(self, target_ms: float) -> dict[str, Any]:
        """For the report."""
        return {
            "name": self.name,
            "seconds": round(self.ended_s - self.began_s, 2),
            "people": {
                "sent": len(self.answers),
                "failed": len(self.answers) - len(self.latencies_ms),
                "p50_ms": _rounded(self.percentile_ms(0.50)),
                "p95_ms": _rounded(self.percentile_ms(0.95)),
                "p99_ms": _rounded(self.percentile_ms(0.99)),
                "on_target": _rounded(self.share_on_target(target_ms), 4),
            },
            "backfill": {
                "items": self.total,
                "done": self.done,
                "failed": self.failed_items,
                "seconds": round(self.backfill_s, 2),
                "items_per_s": _rounded(self.items_per_s),
            }
            if self.total
            else None,
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """All that the demo has seen."""

    target_ms: float
    legs: tuple[Leg, ...]
    searches: tuple[tuple[str, tuple[tuple[str, float, str | None], ...]], ...] = ()
    """(query, hits as (key, cosine, text))."""
    machine: dict[str, Any] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)

    def leg(self, name: str) -> Leg:
        """The leg of that name."""
        return next(leg for leg in self.legs if leg.name == name)

    def faults(self) -> list[str]:
        """Why this run proves nothing; empty: it was sound."""
        found = []
        for leg in self.legs:
            failed = len(leg.answers) - len(leg.latencies_ms)
            if not leg.answers or failed:
                found.append(f"{leg.name}: {failed} of {len(leg.answers)} people's requests failed")
            if leg.done + leg.failed_items < leg.total or leg.failed_items:
                found.append(
                    f"{leg.name}: {leg.done:,} of {leg.total:,} items done, "
                    f"{leg.failed_items:,} failed"
                )
        without = self.leg(UNTHROTTLED).percentile_ms(0.95)
        with_it = self.leg(THROTTLED).percentile_ms(0.95)
        if without is None or with_it is None or with_it >= without:
            found.append("people's P95 was no better with the throttle than without it")
        if not all(hits for _, hits in self.searches):
            found.append("a search found nothing")
        return found

    def document(self) -> dict[str, Any]:
        """report.json."""
        legs = {leg.name: leg.document(self.target_ms) for leg in self.legs}
        return {
            "sound": not self.faults(),
            "faults": self.faults(),
            "target_p95_ms": self.target_ms,
            "load": self.load,
            "legs": legs,
            "p95_ratio": _ratio(
                self.leg(UNTHROTTLED).percentile_ms(0.95), self.leg(THROTTLED).percentile_ms(0.95)
            ),
            "items_per_s_ratio": _ratio(
                self.leg(THROTTLED).items_per_s, self.leg(UNTHROTTLED).items_per_s
            ),
            "searches": [
                {
                    "query": query,
                    "hits": [{"key": k, "score": round(s, 4), "text": t} for k, s, t in hits],
                }
                for query, hits in self.searches
            ],
            "machine": self.machine,
        }


def rolling_p95(
    answers: Sequence[Answer], window_s: float, step_s: float = 0.5
) -> list[tuple[float, float]]:
    """(time, P95 of the requests sent in the `window_s` before), where there were any."""
    answered = [(a.sent_at_s, a.latency_ms) for a in answers if a.latency_ms is not None]
    if not answered:
        return []
    first, last = min(at for at, _ in answered), max(at for at, _ in answered)
    found = []
    at_s = first + step_s
    while at_s <= last + step_s:
        seen = sorted(ms for at, ms in answered if at_s - window_s < at <= at_s)
        if seen:
            found.append((at_s, nearest_rank(seen, 0.95) or 0.0))
        at_s += step_s
    return found


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else round(one / other, 2)
