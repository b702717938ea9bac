"""Schedules: when a job is launched, and what happens to launches that were missed or collide.

A cron whose minutes and hours both begin with something else than `*` names times on the wall:
where the clocks go forward over such a time it comes right after the gap, where they go back it
comes once, the first time. A cron that begins with `*` in either follows the real hours: it has
nothing in a gap, and comes in both of a doubled hour. These are the rules of Debian's cron.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from itertools import islice
from math import isfinite
from typing import Any

from cronsim import CronSim, CronSimError

from app.domain.retry import RetryPolicy
from app.domain.windows import clock_time
from app.domain.zones import comes_twice, instant, zone_named
from app.errors import UsageError

ON_TIME_S = 60.0
"""A time that passed less than this ago was not missed: ticks are not exact."""

LAUNCHES = RetryPolicy(max_attempts=6, base_s=10.0, max_s=600.0)
"""How often a launch that fails is tried again before its run has failed."""

MOST_JITTER_S = 86_400.0
"""A day: a run that begins later would be another day's."""

_MOST_AT_ONCE = 5000
_A_SECOND, _A_MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class ScheduleState(StrEnum):
    """ACTIVE: it fires. PAUSED: its times pass by."""

    ACTIVE = "active"
    PAUSED = "paused"


class Missed(StrEnum):
    """What becomes of runs whose time passed while nobody ticked."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a run that is due while an earlier one's job is still open."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class RunState(StrEnum):
    """PLANNED: it waits for its time, or for an earlier run. LAUNCHED: its job is there."""

    PLANNED = "planned"
    LAUNCHED = "launched"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Rule:
    """When a schedule fires, and how. Checked by `check`.

    `missed_within_s`: runs missed by more are not made up for. A run begins up to `jitter_s` after
    its nominal time. `done_by` (06:00): the job's deadline is the next such time on the wall.
    """

    cron: str
    timezone: str = "UTC"
    missed: Missed = Missed.LATEST
    missed_within_s: float = 3 * 86400.0
    overlap: Overlap = Overlap.SKIP
    jitter_s: float = 0.0
    done_by: str | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is in the database. `template` is what is submitted at each run."""

    id: int
    name: str
    state: ScheduleState
    rule: Rule
    template: Mapping[str, Any]
    created_at: datetime
    seen_until: datetime


@dataclass(frozen=True, slots=True)
class Skipped:
    """A nominal time that passes without a launch, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    """What became due: runs to plan, times that pass, and up to when all was looked at."""

    runs: tuple[datetime, ...]
    skipped: tuple[Skipped, ...]
    seen_until: datetime


def check(rule: Rule) -> None:
    """UsageError: a cron that cannot be read or never comes, an unknown zone, a wrong number."""
    zone_named(rule.timezone)
    if rule.done_by is not None:
        clock_time(rule.done_by)
    if rule.jitter_s < 0 or rule.missed_within_s < 0:
        raise UsageError("jitter and the bound on missed runs cannot be negative")
    if not (isfinite(rule.missed_within_s) and rule.jitter_s <= MOST_JITTER_S):
        raise UsageError("jitter is at most a day, and the bound on missed runs is a number")
    if len(rule.cron.split()) != 5:
        raise UsageError(
            f"cron {rule.cron!r} has {len(rule.cron.split())} fields; it wants five: minute, hour, "
            "day of the month, month, weekday, such as '0 2 * * *'"
        )
    try:
        is_there = next(times(rule, datetime(2026, 1, 1, tzinfo=UTC)), None) is not None
    except CronSimError as error:
        raise UsageError(f"cron {rule.cron!r}: {str(error).lower()}") from None
    if not is_there:
        raise UsageError(f"cron {rule.cron!r} never comes")


def times(rule: Rule, after: datetime) -> Iterator[datetime]:
    """The nominal times after `after`, in UTC, each later than the one before."""
    last = after.astimezone(UTC)
    for at in CronSim(rule.cron, after.astimezone(zone_named(rule.timezone))):
        moment = at.astimezone(UTC)
        # Two times in one gap are the same moment, and a doubled hour is passed a second time.
        if moment > last:
            last = moment
            yield moment


def note(rule: Rule, at: datetime) -> str | None:
    """What the clocks do to the nominal time `at`; None: nothing."""
    local = at.astimezone(zone_named(rule.timezone))
    wall = local.replace(tzinfo=None, fold=0)
    on_the_wall = not any(field.startswith("*") for field in rule.cron.split()[:2])
    if comes_twice(local):
        if on_the_wall:
            return f"{wall:%H:%M} comes twice that day; it runs the first time only"
        which = "second" if local.fold else "first"
        return f"{wall:%H:%M} comes twice that day; it runs both times, this is the {which}"
    before = (at - _A_MINUTE).astimezone(local.tzinfo)
    is_after_gap = before.utcoffset() != local.utcoffset()
    if on_the_wall and is_after_gap and next(CronSim(rule.cron, wall - _A_SECOND)) != wall:
        meant = next(CronSim(rule.cron, wall, reverse=True))
        return f"{meant:%H:%M} does not exist that day; it runs right after the gap"
    return None


def due(rule: Rule, seen_until: datetime, now: datetime, most: int = _MOST_AT_ONCE) -> Due:
    """What is to be done about the nominal times after `seen_until`, up to `now`.

    At most `most` times are looked at; the next call goes on after them. Where nothing came,
    `seen_until` stays.
    """
    passed: list[datetime] = []
    for at in islice(times(rule, seen_until), most + 1):
        if at > now:
            break
        passed.append(at)
    if not passed:
        return Due((), (), seen_until)
    is_all = len(passed) <= most
    passed = passed[:most]
    runs: list[datetime] = []
    skipped: list[Skipped] = []
    for at in passed:
        reason = _passed_by(rule, at, now, is_last=is_all and at == passed[-1])
        if reason is None:
            runs.append(at)
        else:
            skipped.append(Skipped(at, reason))
    return Due(tuple(runs), tuple(skipped), now if is_all else passed[-1])


def _passed_by(rule: Rule, at: datetime, now: datetime, *, is_last: bool) -> str | None:
    """Why the time passes without a run; None: it is run."""
    late_s = (now - at).total_seconds()
    if rule.missed is Missed.LATEST and not is_last:
        return "missed: a later one was due too"
    if late_s <= ON_TIME_S:
        return None
    if rule.missed is Missed.SKIP:
        return "missed"
    if late_s > rule.missed_within_s:
        return "missed by more than the schedule makes up for"
    return None


def begins_at(name: str, rule: Rule, nominal: datetime) -> datetime:
    """When the run really begins: the same for everybody who asks."""
    if rule.jitter_s == 0:
        return nominal
    digest = blake2b(f"{name}@{nominal.astimezone(UTC).isoformat()}".encode(), digest_size=8)
    share = int.from_bytes(digest.digest(), "big") / 2**64
    return nominal + timedelta(seconds=round(share * rule.jitter_s, 3))


def key_of(name: str, rule: Rule, nominal: datetime) -> str:
    """The key of the run's job: whoever launches it, however often, it is one job."""
    local = nominal.astimezone(zone_named(rule.timezone)).replace(microsecond=0)
    return f"{name}@{local.isoformat(timespec='seconds' if local.second else 'minutes')}"


def deadline(rule: Rule, nominal: datetime) -> datetime | None:
    """The first `done_by` on the wall after the nominal time, in UTC; None: no deadline."""
    if rule.done_by is None:
        return None
    zone = zone_named(rule.timezone)
    local = nominal.astimezone(zone)
    wall = datetime.combine(local.date(), clock_time(rule.done_by))
    while (at := instant(wall, zone)) <= nominal:
        wall += timedelta(days=1)
    return at


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier run of the same schedule that is not over: planned, or its job still open."""

    nominal_at: datetime
    job_id: int | None
    job_key: str | None


@dataclass(frozen=True, slots=True)
class Go:
    """Launch it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Launch it when the earlier ones are over."""


@dataclass(frozen=True, slots=True)
class PassBy:
    """Do not launch it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Replace:
    """End these earlier ones, then launch it."""

    earlier: tuple[Earlier, ...]


def on_overlap(policy: Overlap, earlier: Sequence[Earlier]) -> Go | Wait | PassBy | Replace:
    """What a due run does about `earlier` ones that are not over."""
    if not earlier:
        return Go()
    match policy:
        case Overlap.QUEUE:
            return Wait()
        case Overlap.CANCEL:
            return Replace(tuple(earlier))
        case Overlap.SKIP:
            first = earlier[0]
            what = f"job {first.job_key}" if first.job_key else "an earlier run"
            return PassBy(f"overlap: {what} is not over")
