"""What an examination found: a check, how bad it is, where, what, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """OK: looked at and well. WARNING: it works, and will not for ever. ERROR: something stands."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Code(StrEnum):
    """What was checked. Stable: programs read it."""

    DATABASE = "database"
    SCHEMA = "schema"
    VECTORS = "vectors"
    SESSION = "session"
    CLOCK = "clock"
    CONNECTIONS = "connections"
    SNAPSHOTS = "snapshots"
    BLOCKED = "blocked"
    DEAD_ROWS = "dead_rows"
    BROKER = "broker"
    QUEUES = "queues"
    EVICTION = "eviction"
    VISIBILITY = "visibility"
    TICKS = "ticks"
    DECISIONS = "decisions"
    ENDPOINTS = "endpoints"
    PROGRESS = "progress"
    LEASES = "leases"
    JOBS = "jobs"
    WAITS = "waits"
    KEYS = "keys"
    WEBHOOKS = "webhooks"
    UNREAD = "unread"


_WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.OK)
_IN_ORDER = tuple(Code)


@dataclass(frozen=True, slots=True)
class Finding:
    """`where` names the part, never with a password; `right` is None where all is well."""

    code: Code
    severity: Severity
    where: str
    what: str
    right: str | None = None


def well(code: Code, where: str, what: str) -> Finding:
    """Nothing is to be done."""
    return Finding(code, Severity.OK, where, what)


def warning(code: Code, where: str, what: str, right: str) -> Finding:
    """It works for now."""
    return Finding(code, Severity.WARNING, where, what, right)


def error(code: Code, where: str, what: str, right: str) -> Finding:
    """It does not work."""
    return Finding(code, Severity.ERROR, where, what, right)


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """By severity, then in the order of the checks."""
    return sorted(
        findings,
        key=lambda one: (_WORST_FIRST.index(one.severity), _IN_ORDER.index(one.code), one.where),
    )


def passes(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Whether nothing is an error; `strict`: nor a warning."""
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return not any(one.severity in bad for one in findings)


def span(seconds: float) -> str:
    """A length of time, roughly: `3 s`, `12 min`, `5 h`, `3 days`."""
    for size, unit in ((172_800, "days"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3600, 'min': 60}[unit]:,.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(count: int, what: str, many: str | None = None) -> str:
    """`1 job`, `3 jobs`; `many` where the plural is another word."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"
