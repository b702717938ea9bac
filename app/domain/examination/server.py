"""Rules for the Postgres server: version, schema, our own sessions, clock, connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.examination.findings import Code, Finding, error, warning, well

OLDEST = 15
"""The oldest Postgres that Giveway is tested on."""
PGVECTOR = (0, 8)
"""The oldest pgvector whose index can be read to the end, which searches rely on."""
_CLOCK_WARN_S, _CLOCK_ERROR_S = 0.5, 10.0
_FULL = 0.85


@dataclass(frozen=True, slots=True)
class Server:
    """Postgres as one of our sessions meets it. `vectors` is pgvector's version; None: it is not in
    this database, and `vectors_available` says whether it could be. `idle_timeout_s` 0: none."""

    where: str
    version: str
    major: int
    read_only: bool
    isolation: str
    idle_timeout_s: float
    vectors: str | None
    vectors_available: bool
    most_connections: int
    connections: int
    ours: int
    answers_ms: float


def database(server: Server) -> list[Finding]:
    """It answers, is not too old, and takes writes."""
    where, version = server.where, f"Postgres {server.version}"
    if server.read_only:
        return [
            error(
                Code.DATABASE,
                where,
                f"{version} takes no writes: a standby, or default_transaction_read_only",
                "name the primary in GIVEWAY_DATABASE__URL",
            )
        ]
    if server.major < OLDEST:
        right = f"upgrade to Postgres {OLDEST} or newer"
        return [warning(Code.DATABASE, where, f"{version} is older than what is tested", right)]
    return [well(Code.DATABASE, where, f"{version} answers in {server.answers_ms:.0f} ms")]


def database_away(where: str, why: str) -> list[Finding]:
    """It does not answer."""
    right = "start it, or set GIVEWAY_DATABASE__URL to one that answers from here"
    return [error(Code.DATABASE, where, why, right)]


def schema(current: str | None, head: str, *, known: bool) -> list[Finding]:
    """The tables are what this version needs. `known`: it knows the revision that is there."""
    where, right = "schema", "giveway db upgrade"
    if current is None:
        return [error(Code.SCHEMA, where, "the database has no tables of Giveway", right)]
    if current == head:
        return [well(Code.SCHEMA, where, f"at {head}")]
    if known:
        return [error(Code.SCHEMA, where, f"at {current}, but this version needs {head}", right)]
    what = f"at {current}, which is newer than this version's {head}"
    return [error(Code.SCHEMA, where, what, "run the version of Giveway that made it")]


def vectors(server: Server) -> list[Finding]:
    """pgvector is there and new enough."""
    where = "pgvector"
    needed = ".".join(map(str, PGVECTOR))
    if server.vectors is None:
        right = (
            "CREATE EXTENSION vector, as a user who may"
            if server.vectors_available
            else f"install pgvector {needed} or newer on the server, then CREATE EXTENSION vector"
        )
        return [error(Code.VECTORS, where, "not in this database", right)]
    if _numbers(server.vectors) < PGVECTOR:
        right = f"install pgvector {needed} or newer, then ALTER EXTENSION vector UPDATE"
        return [error(Code.VECTORS, where, f"{server.vectors} is too old for searches", right)]
    return [well(Code.VECTORS, where, server.vectors)]


def session(server: Server) -> list[Finding]:
    """What our sessions ask for is in force: a pooler between, or the role's settings, may undo it.

    Claims count with a fresh snapshot a statement; whoever hangs in a transaction must be cut off.
    """
    where = "our sessions"
    found: list[Finding] = []
    if server.isolation != "read committed":
        found.append(
            error(
                Code.SESSION,
                where,
                f"transactions are {server.isolation}, so that claims count old leases",
                "ALTER ROLE … RESET default_transaction_isolation, and of the database too",
            )
        )
    if server.idle_timeout_s <= 0:
        found.append(
            warning(
                Code.SESSION,
                where,
                "idle_in_transaction_session_timeout is off: a process that hangs keeps its locks",
                "let the pooler pass `options` on, or ALTER ROLE … SET "
                "idle_in_transaction_session_timeout = '30s'",
            )
        )
    what = f"{server.isolation}, cut off after {server.idle_timeout_s:g} s idle in a transaction"
    return found or [well(Code.SESSION, where, what)]


def clock(ahead_s: float, doubt_s: float) -> list[Finding]:
    """This machine's clock against Postgres. `doubt_s`: how far the measurement may be out.

    People's waiting is counted from a worker's clock to the database's, so that a clock which is
    wrong makes the throttle see another latency than there is.
    """
    where, sure_s = "clock", max(0.0, abs(ahead_s) - doubt_s)
    way = "ahead of" if ahead_s > 0 else "behind"
    if sure_s <= _CLOCK_WARN_S:
        return [well(Code.CLOCK, where, f"within {abs(ahead_s) + doubt_s:.2f} s of Postgres's")]
    what = f"this machine's is {abs(ahead_s):.1f} s {way} Postgres's"
    make = error if sure_s > _CLOCK_ERROR_S else warning
    return [make(Code.CLOCK, where, what, "let NTP set the clocks of both machines")]


def connections(server: Server, needed: Mapping[str, int]) -> list[Finding]:
    """Room for what the settings imply, and how much of it is taken now.

    `needed`: connections of one process of each sort. Of more machines each takes as many again.
    """
    where, total = "connections", sum(needed.values())
    parts = ", ".join(f"{name} {count}" for name, count in needed.items())
    room = (
        "raise max_connections (or the role's or the database's limit), "
        "or lower [database] connections"
    )
    if total > server.most_connections:
        what = f"one of each process may take {total} ({parts}) of {server.most_connections}"
        return [error(Code.CONNECTIONS, where, what, room)]
    taken = f"{server.connections} of {server.most_connections} are taken, {server.ours} by Giveway"
    if server.connections >= _FULL * server.most_connections:
        return [warning(Code.CONNECTIONS, where, taken, room)]
    if server.connections - server.ours + total > server.most_connections:
        what = f"{taken}, and one of each process may take {total} ({parts})"
        return [warning(Code.CONNECTIONS, where, what, room)]
    return [well(Code.CONNECTIONS, where, f"{taken}; one of each process may take {total}")]


def unread(what: str, why: str) -> Finding:
    """Something that could not be looked at."""
    said = f"could not be looked at: {why}"
    return warning(Code.UNREAD, what, said, "look again when the rest is right")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
