"""Explaining: "why is my batch waiting?" in one sentence, from a decision and what it was made of.

Pure; the figures are those that the decision was made with, none is looked up again.
"""

from __future__ import annotations

from datetime import datetime

from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, Reason


def explain(
    decision: Decision,
    reading: Reading | None,
    policy: PolicySettings,
    bounds: Bounds,
    now: datetime,
) -> str:
    """One sentence. `now` is when it is asked: a decision whose time is over rules no more."""
    valid_until = decision.state.valid_until
    if valid_until is None or now > valid_until:
        age = "" if valid_until is None else f" for {(now - valid_until).total_seconds():.0f} s"
        return (
            f"Pool {bounds.pool!r} stands at its floor of {_requests(bounds.floor)}, because no "
            f"decision has been in force{age}: is the control worker running?"
        )
    return (
        f"{_limit(decision, reading, bounds)}, because {_why(decision, reading, policy, bounds)}."
    )


def _limit(decision: Decision, reading: Reading | None, bounds: Bounds) -> str:
    flying = "" if reading is None else f" ({reading.batch_in_flight} are in flight)"
    return f"Pool {bounds.pool!r} lets {_requests(decision.limit)} in flight{flying}"


def _why(  # noqa: PLR0912 - a table of cases
    decision: Decision, reading: Reading | None, policy: PolicySettings, bounds: Bounds
) -> str:
    match decision.reason:
        case Reason.STALE:
            doubt = decision.figures.get("doubt") or "nothing is known about the people who wait"
            return f"nothing can be concluded ({doubt})"
        case Reason.OVERRIDE:
            return "an operator set it"
        case Reason.OVERLOAD:
            return f"people wait too long: {_people(reading, policy)}; it was cut"
        case Reason.COOLING:
            return (
                f"people still wait too long ({_people(reading, policy)}) and the last cut has "
                "not had time to act"
            )
        case Reason.NEAR_TARGET:
            return f"people are close to their target: {_people(reading, policy)}"
        case Reason.HOLDING:
            return (
                f"people have been on target ({_people(reading, policy)}), but not for long "
                "enough to raise it"
            )
        case Reason.GROWING:
            return (
                f"people are on target ({_people(reading, policy)}) and batch uses what it "
                "has; it is being raised"
            )
        case Reason.LIMIT_UNUSED:
            return (
                f"people are on target ({_people(reading, policy)}) and batch does not reach "
                "the limit, so there is nothing to raise"
            )
        case Reason.HEADROOM:
            return (
                f"people are on target ({_people(reading, policy)}) and the limit is as high as "
                f"it may be: total {bounds.total}, reserve {bounds.reserve}, "
                f"batch_max {bounds.ceiling}"
            )
        case Reason.MEMORY:
            return _memory(decision, reading)
        case Reason.NO_TRAFFIC:
            return "nobody is waiting, and this is as much as the endpoint turns into work"
        case Reason.FIXED:
            return f"policy {policy.name!r} does not look at latency"
        case Reason.FOLLOWING:
            return (
                f"policy {policy.name!r} sets it by the present load: "
                f"{_people(reading, policy)}, pressure {decision.pressure:.2f}"
            )
        case Reason.DEADLINE_FLOOR:
            return "a job with a deadline needs them to make it"


def _memory(decision: Decision, reading: Reading | None) -> str:
    """What KV memory there is, and what takes it."""
    beside = ""
    if reading is not None and reading.interactive_in_flight:
        one = reading.interactive_in_flight == 1
        beside = f" beside {reading.interactive_in_flight} {'person' if one else 'people'}"
    told = f"the endpoints' KV memory bears no more{beside}"
    kv = decision.state.kv
    return told if kv is None else f"{told}: {kv.words}"


def _people(reading: Reading | None, policy: PolicySettings) -> str:
    """What is known of the people, against the target."""
    if reading is None:
        return "nothing is known"
    target = f"target {policy.target_p95_ms:,.0f} ms"
    said = f"P95 {reading.p95_ms:,.0f} ms, {target}" if reading.p95_ms is not None else target
    if reading.p95_ms is None and not reading.interactive_in_flight:
        return f"no requests in the last {reading.window_s:.0f} s"
    parts = [said]
    if reading.misses:
        parts.append(f"{reading.misses} of {reading.samples} over it")
    if reading.waiting_over_target:
        parts.append(f"{reading.waiting_over_target} wait for longer than that now")
    if reading.refused:
        parts.append(f"the endpoint refused {reading.refused}")
    return ", ".join(parts)


def _requests(count: int) -> str:
    return f"{count} batch request{'' if count == 1 else 's'}"
