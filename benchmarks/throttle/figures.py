"""From legs to figures. Pure; a request without an answer waited for ever."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.throttle.samples import nearest_rank
from benchmarks.throttle.contenders import is_fixed
from benchmarks.throttle.legs import BIN_S, Leg
from benchmarks.throttle.targets import FACTOR, Targets

REACTION_WINDOW_S = 3.0
"""People are back on target once the P95 of those due in the next so many seconds is."""
CUT_WITHIN_S = 3.0
"""The time that a cut is allowed; a later crowd within the same surge has a cut of its own."""
RECOVERED = 0.9
"""Share of the batch rate before the surge at which batch has recovered."""
_RATE_BINS = 4
_STRIDE_S = 0.25


@dataclass(frozen=True, slots=True)
class Run:
    """One contender under one load with one seed, as throttle.json has it.

    Shares are 0 to 1. None: unknown, or there is nothing of the kind (a steady load has no surge,
    plain Celery no limit). `work_share_of_oracle`: batch work against the most that any contender
    of the same load and seed did *while keeping the target*; None where none kept it. It can pass 1
    for one that does not keep it. `work_share_of_best_cap` holds it against fixed caps alone.
    """

    contender: str
    workload: str
    seed: int
    target_ms: float
    keeps_target: bool
    people: int
    unanswered: int
    on_target: float
    on_target_without_batch: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p50_ms_without_batch: float | None
    p95_ms_without_batch: float | None
    p99_ms_without_batch: float | None
    items_per_s: float
    work_share_of_dedicated: float | None
    work_share_of_oracle: float | None
    work_share_of_best_cap: float | None
    cut_s: float | None
    """From a surge's start until batch in flight is down to the limit after the time allowed."""
    settle_s: float | None
    """From a surge's start until people are on target again."""
    recovery_s: float | None
    """From a surge's end until batch does `RECOVERED` of what it did before."""
    limit_mean: float | None
    limit_swing: float | None
    """Standard deviation of the limit over its mean, in steady load."""
    late_p99_ms: float | None
    """How late the caller itself sent; much of it blames the benchmark and not the contender."""
    engine_lost_s: float
    cpu_share: float


def targets(alone: Leg) -> Targets:
    """What people alone took, times `FACTOR`."""
    each = [a.per_token_ms for a in alone.answers if a.per_token_ms is not None]
    whole_ms, each_ms = latency_ms(alone, 0.95), nearest_rank(sorted(each), 0.95)
    if whole_ms is None or each_ms is None:
        raise RuntimeError("people alone got no answers; there is no target without them")
    return Targets(FACTOR * whole_ms, (FACTOR - 1) * whole_ms, FACTOR * each_ms)


def latency_ms(leg: Leg, share: float) -> float | None:
    """The `share` quantile of all who came; None: it is one who got no answer, or nobody came."""
    waited = nearest_rank(sorted(map(_waited, (a.latency_ms for a in leg.answers))), share)
    return None if waited is None or math.isinf(waited) else waited


def on_target(leg: Leg, target_ms: float) -> float:
    """Share of all who came and had their answer in time."""
    if not leg.answers:
        return 1.0
    return sum(_waited(a.latency_ms) <= target_ms for a in leg.answers) / len(leg.answers)


def items_per_s(leg: Leg) -> float:
    """Batch work."""
    return sum(leg.items) / (len(leg.items) * BIN_S)


def cut_s(leg: Leg) -> float | None:
    """Median over surges. What batch has to be down to is the median of the limit in the
    `REACTION_WINDOW_S` that follow the `CUT_WITHIN_S` allowed."""
    found = []
    for begin, end in leg.load.surges:
        inside = [s for s in leg.samples if begin <= s.at_s < end]
        allowed = begin + CUT_WITHIN_S
        then = [s.limit for s in inside if allowed <= s.at_s < allowed + REACTION_WINDOW_S]
        if then:
            holds = statistics.median(then)
            found.append(
                next((s.at_s - begin for s in inside if s.in_flight <= holds), end - begin)
            )
    return statistics.median(found) if found else None


def settle_s(leg: Leg, target_ms: float) -> float | None:
    """Median over surges; a surge in which it never happens counts with its whole length."""
    found = []
    for begin, end in leg.load.surges:
        at_s = begin
        while at_s < end and not _is_calm(leg, at_s, target_ms):
            at_s += _STRIDE_S
        found.append(min(at_s, end) - begin)
    return statistics.median(found) if found else None


def recovery_s(leg: Leg) -> float | None:
    """Median over surges, of the rate of two seconds; None: no surge, or no batch before it."""
    found = []
    for begin, end in leg.load.surges:
        before = leg.items[max(0, round((begin - 10) / BIN_S)) : round(begin / BIN_S)]
        usual = sum(before) / len(before) if before else 0.0
        if not usual:
            continue
        first = round(end / BIN_S)
        last = len(leg.items) - _RATE_BINS
        rates = [sum(leg.items[at : at + _RATE_BINS]) / _RATE_BINS for at in range(first, last + 1)]
        over = (at for at, rate in enumerate(rates) if rate >= RECOVERED * usual)
        found.append(next(over, len(rates)) * BIN_S)
    return statistics.median(found) if found else None


def limit_swing(leg: Leg) -> float | None:
    """Only a steady load tells it."""
    limits = [s.limit for s in leg.samples]
    if not limits or leg.load.surges:
        return None
    return statistics.pstdev(limits) / statistics.fmean(limits)


def runs(
    legs: Sequence[Leg], alone: Sequence[Leg], dedicated: float | None, told: Targets
) -> list[Run]:
    """The figures of one seed: `legs` of all contenders, `alone` of people without batch."""
    best = _most(legs, told)
    best_cap = _most([leg for leg in legs if is_fixed(leg.contender)], told)
    return [
        _run(
            leg,
            next(a for a in alone if a.load.name == leg.load.name),
            dedicated,
            best.get(leg.load.name),
            best_cap.get(leg.load.name),
            told,
        )
        for leg in [*alone, *legs]
    ]


def _most(legs: Sequence[Leg], told: Targets) -> dict[str, float]:
    """The most batch work, by load, among those that keep the target."""
    best: dict[str, float] = {}
    for leg in legs:
        if _keeps(leg, told.whole_ms):
            best[leg.load.name] = max(best.get(leg.load.name, 0.0), items_per_s(leg))
    return best


def _run(
    leg: Leg,
    alone: Leg,
    dedicated: float | None,
    most: float | None,
    most_of_caps: float | None,
    told: Targets,
) -> Run:
    target_ms, rate = told.whole_ms, items_per_s(leg)
    limits = [s.limit for s in leg.samples]
    return Run(
        contender=leg.contender,
        workload=leg.load.name,
        seed=leg.seed,
        target_ms=target_ms,
        keeps_target=_keeps(leg, target_ms),
        people=len(leg.answers),
        unanswered=sum(a.latency_ms is None for a in leg.answers),
        on_target=on_target(leg, target_ms),
        on_target_without_batch=on_target(alone, target_ms),
        p50_ms=latency_ms(leg, 0.50),
        p95_ms=latency_ms(leg, 0.95),
        p99_ms=latency_ms(leg, 0.99),
        p50_ms_without_batch=latency_ms(alone, 0.50),
        p95_ms_without_batch=latency_ms(alone, 0.95),
        p99_ms_without_batch=latency_ms(alone, 0.99),
        items_per_s=rate,
        work_share_of_dedicated=rate / dedicated if dedicated else None,
        work_share_of_oracle=rate / most if most else None,
        work_share_of_best_cap=rate / most_of_caps if most_of_caps else None,
        cut_s=cut_s(leg),
        settle_s=settle_s(leg, target_ms),
        recovery_s=recovery_s(leg),
        limit_mean=statistics.fmean(limits) if limits else None,
        limit_swing=limit_swing(leg),
        late_p99_ms=nearest_rank(sorted(a.late_ms for a in leg.answers), 0.99),
        engine_lost_s=leg.engine_lost_s,
        cpu_share=leg.cpu_share,
    )


def _keeps(leg: Leg, target_ms: float) -> bool:
    p95_ms = latency_ms(leg, 0.95)
    return p95_ms is not None and p95_ms <= target_ms


def _is_calm(leg: Leg, at_s: float, target_ms: float) -> bool:
    waited = sorted(
        _waited(a.latency_ms) for a in leg.answers if at_s <= a.due_s < at_s + REACTION_WINDOW_S
    )
    return (nearest_rank(waited, 0.95) or 0.0) <= target_ms


def _waited(latency_ms: float | None) -> float:
    return math.inf if latency_ms is None else latency_ms
