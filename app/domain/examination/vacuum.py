"""Rules for what makes claims slower by the hour, or stops work: old snapshots, the dead rows they
keep, and sessions that wait for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.examination.findings import Code, Finding, counted, error, span, warning, well

OLD_S = 300.0
"""A snapshot of so long ago is old, unless told otherwise."""
IDLE_S = 60.0
"""Our own sessions are ended sooner when they idle in a transaction: another's is old then."""
WAITS_S = 5.0
"""So long no short transaction waits for another."""
OLD_XIDS = 1_000_000
"""Where no time is known, transactions ago."""
NEAR_WRAPAROUND = 1_000_000_000
"""So far back, Postgres is on its way to refusing all writes (at two thousand million)."""
SHARE = 0.5
DEAD = 5_000
"""So many dead rows, and this share of all, are more than autovacuum leaves when it gets on."""
_NAMED = 10


class Keeper(StrEnum):
    """What keeps a snapshot: a session, a prepared transaction, a replication slot."""

    SESSION = "session"
    PREPARED = "prepared"
    SLOT = "slot"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who keeps old rows from being removed, or may.

    `name` is a pid, the transaction's or the slot's name. `age_s` since its transaction began; None
    where that is not known: of slots, and of `hidden` sessions, which our role may not look at.
    `xids`: how many transactions ago its snapshot was made; None: it has none, and keeps locks
    only. `idle_s`: for how long it has waited for its client in the middle of a transaction; None:
    it is at work.
    """

    keeper: Keeper
    name: str
    who: str
    age_s: float | None
    xids: int | None
    idle_s: float | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table as the server counts them; `vacuumed_s` ago was the last vacuum, None: it was
    never."""

    table: str
    live: int
    dead: int
    vacuumed_s: float | None


@dataclass(frozen=True, slots=True)
class Blocked:
    """A session that waits for another, as both are called: what it does, for how long, and what
    the other has been doing for `by_s`. `by` None: it is a prepared transaction."""

    pid: int
    who: str
    does: str
    waits_s: float
    by: int | None
    by_who: str
    by_does: str
    by_s: float


def snapshots(
    holders: Sequence[Holder], old_s: float = OLD_S, old_xids: int = OLD_XIDS
) -> list[Finding]:
    """Who holds back vacuum, the oldest first, and who is idle in an old transaction."""
    old = [one for one in holders if _is_old(one, old_s, old_xids)]
    old.sort(key=lambda one: (one.xids or 0, one.age_s or 0.0), reverse=True)
    found = [_kept(one) for one in old[:_NAMED]]
    if len(old) > _NAMED:
        more = f"{len(old) - _NAMED} more like these"
        found.append(warning(Code.SNAPSHOTS, "snapshots", more, "end the oldest ones first"))
    hidden = sum(one.hidden and one not in old for one in holders)
    if hidden:
        found.append(
            warning(
                Code.SNAPSHOTS,
                "snapshots",
                f"{counted(hidden, 'session')} of other roles cannot be judged: nothing is shown",
                "GRANT pg_read_all_stats to Giveway's role",
            )
        )
    return found or [well(Code.SNAPSHOTS, "snapshots", f"none is older than {span(old_s)}")]


def _is_old(one: Holder, old_s: float, old_xids: int) -> bool:
    if one.idle_s is not None and one.idle_s >= min(IDLE_S, old_s):
        return True
    if one.age_s is not None and one.age_s >= old_s:
        return one.xids is not None or one.idle_s is not None
    return one.xids is not None and one.xids >= old_xids


def _kept(one: Holder) -> Finding:
    where = f"{one.keeper} {one.name}" + (f" ({one.who})" if one.who else "")
    if one.xids is None:
        what = f"idle in a transaction for {span(one.idle_s or 0.0)}, with what it has locked"
        return warning(Code.SNAPSHOTS, where, what, _remedy(one))
    since = "" if one.age_s is None else f"{span(one.age_s)} and "
    ago = f"{since}{counted(one.xids, 'transaction')} ago"
    idle = "" if one.idle_s is None else ", idle"
    what = f"keeps a snapshot of {ago}{idle}: vacuum removes nothing newer"
    make = error if one.xids >= NEAR_WRAPAROUND else warning
    return make(Code.SNAPSHOTS, where, what, _remedy(one))


def blocked(waiting: Sequence[Blocked]) -> list[Finding]:
    """Who waits for whom, the longest first."""
    found = [
        warning(
            Code.BLOCKED,
            f"session {one.pid} ({one.who})",
            f"{one.does} and has waited {span(one.waits_s)} for {_blocker(one)}",
            "COMMIT PREPARED or ROLLBACK PREPARED: SELECT gid FROM pg_prepared_xacts"
            if one.by is None
            else f"end what it does there, or SELECT pg_terminate_backend({one.by})",
        )
        for one in sorted(waiting, key=lambda one: -one.waits_s)[:_NAMED]
        if one.waits_s >= WAITS_S
    ]
    return found or [well(Code.BLOCKED, "sessions", "none has waited long for another")]


def _blocker(one: Blocked) -> str:
    if one.by is None:
        return "a prepared transaction"
    return f"session {one.by} ({one.by_who}), which {one.by_does} for {span(one.by_s)} now"


def _remedy(one: Holder) -> str:
    quoted = one.name.replace("'", "''")
    match one.keeper:
        case Keeper.SESSION:
            return f"end its transaction, or SELECT pg_terminate_backend({one.name})"
        case Keeper.PREPARED:
            return f"COMMIT PREPARED '{quoted}' or ROLLBACK PREPARED '{quoted}'"
        case Keeper.SLOT:
            return f"let its consumer catch up, or SELECT pg_drop_replication_slot('{quoted}')"


def dead_rows(tables: Sequence[TableRows], *, autovacuum: bool) -> list[Finding]:
    """Tables of ours that are mostly dead rows; autovacuum that is off."""
    found = []
    if not autovacuum:
        what = "autovacuum is off: tables only grow, and claims get slower"
        right = "ALTER SYSTEM SET autovacuum = on, track_counts too; then SELECT pg_reload_conf()"
        found.append(error(Code.DEAD_ROWS, "autovacuum", what, right))
    for one in tables:
        rows = one.live + one.dead
        if one.dead < DEAD or one.dead < SHARE * rows:
            continue
        last = "never" if one.vacuumed_s is None else f"{span(one.vacuumed_s)} ago"
        what = f"{one.dead:,} of {rows:,} rows are dead; last vacuum {last}"
        right = f"end old snapshots first, then VACUUM {one.table}"
        found.append(warning(Code.DEAD_ROWS, f"table {one.table}", what, right))
    return found or [well(Code.DEAD_ROWS, "tables", "no table is mostly dead rows")]
