"""Schedules: by what rule they fire, what they launch, and up to when that was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, RowMapping, text

from app.domain.schedules import (
    Missed,
    Overlap,
    Rule,
    Schedule,
    ScheduleState,
)


class ScheduleStore:
    """Queries on `schedules`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def add(self, name: str, rule: Rule, template: Mapping[str, Any], seen_until: datetime) -> bool:
        """A new schedule, active; False: the name is taken."""
        values = {
            "name": name,
            "cron": rule.cron,
            "timezone": rule.timezone,
            "missed": rule.missed,
            "missed_within_s": rule.missed_within_s,
            "overlap": rule.overlap,
            "jitter_s": rule.jitter_s,
            "done_by": rule.done_by,
            "template": orjson.dumps(dict(template)).decode(),
            "seen_until": seen_until,
        }
        return self._tx.execute(_ADD, values).rowcount == 1

    def find(self, name: str) -> Schedule | None:
        """The schedule called `name`."""
        row = self._tx.execute(_FIND, {"name": name}).mappings().one_or_none()
        return None if row is None else _schedule(row)

    def get(self, schedule_id: int) -> Schedule | None:
        """The schedule with this id."""
        row = self._tx.execute(_GET, {"id": schedule_id}).mappings().one_or_none()
        return None if row is None else _schedule(row)

    def listed(self) -> list[Schedule]:
        """All of them, by name."""
        return [_schedule(row) for row in self._tx.execute(_LISTED).mappings()]

    def active(self) -> list[Schedule]:
        """Those that fire. Locks nothing: most ticks find nothing due."""
        return [_schedule(row) for row in self._tx.execute(_ACTIVE).mappings()]

    def lock(self, ids: Sequence[int]) -> list[Schedule]:
        """Those of `ids` that are still active, locked; passes over what another tick holds."""
        if not ids:
            return []
        rows = self._tx.execute(_LOCK, {"ids": list(ids)}).mappings()
        return [_schedule(row) for row in rows]

    def see(self, until: Mapping[int, datetime]) -> None:
        """All up to these times was looked at. Never goes back."""
        if until:
            values = {"ids": list(until), "times": list(until.values())}
            self._tx.execute(_SEE, values)

    def set_state(self, name: str, state: ScheduleState, now: datetime) -> None:
        """Pause or resume; what came while it was paused has passed by."""
        self._tx.execute(_SET_STATE, {"name": name, "state": state, "now": now})

    def remove(self, name: str) -> bool:
        """Delete it with its runs; the jobs stay. False: there is none."""
        return self._tx.execute(_REMOVE, {"name": name}).rowcount == 1


def _schedule(row: RowMapping) -> Schedule:
    rule = Rule(
        cron=row["cron"],
        timezone=row["timezone"],
        missed=Missed(row["missed"]),
        missed_within_s=row["missed_within_s"],
        overlap=Overlap(row["overlap"]),
        jitter_s=row["jitter_s"],
        done_by=row["done_by"],
    )
    return Schedule(
        id=row["id"],
        name=row["name"],
        state=ScheduleState(row["state"]),
        rule=rule,
        template=row["template"],
        created_at=row["created_at"],
        seen_until=row["seen_until"],
    )


_ADD = text("""
    INSERT INTO schedules (name, cron, timezone, state, missed, missed_within_s, overlap, jitter_s,
                           done_by, template, seen_until)
    VALUES (:name, :cron, :timezone, 'active', :missed, :missed_within_s, :overlap, :jitter_s,
            :done_by, CAST(:template AS jsonb), :seen_until)
    ON CONFLICT (name) DO NOTHING
""")
_FIND = text("SELECT * FROM schedules WHERE name = :name")
_GET = text("SELECT * FROM schedules WHERE id = :id")
_LISTED = text("SELECT * FROM schedules ORDER BY name")
_ACTIVE = text("SELECT * FROM schedules WHERE state = 'active' ORDER BY id")
_LOCK = text("""
    SELECT * FROM schedules WHERE id = ANY(:ids) AND state = 'active'
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
_SEE = text("""
    UPDATE schedules s SET seen_until = greatest(s.seen_until, seen.at)
    FROM unnest(CAST(:ids AS int[]), CAST(:times AS timestamptz[])) AS seen (id, at)
    WHERE s.id = seen.id
""")
_SET_STATE = text("""
    UPDATE schedules SET state = :state, seen_until = greatest(seen_until, :now)
    WHERE name = :name AND state <> :state
""")
_REMOVE = text("DELETE FROM schedules WHERE name = :name")
