"""The event log: appended in batches, read by the report, pruned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class Record:
    """An event to append. `age_s`: how long ago it happened, so that the database's own clock
    dates the events of all machines."""

    age_s: float
    type: str
    pool: str | None
    endpoint: str | None
    job_id: int | None
    facts: bytes


class EventStore:
    """Queries on `events`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def append(self, records: Sequence[Record]) -> None:
        """Add these, in one statement."""
        if not records:
            return
        documents = [
            {
                "age_s": record.age_s,
                "type": record.type,
                "pool": record.pool,
                "endpoint": record.endpoint,
                "job_id": record.job_id,
                "facts": orjson.Fragment(record.facts),
            }
            for record in records
        ]
        self._tx.execute(_APPEND, {"records": orjson.dumps(documents).decode()})

    def recent(
        self, since_s: float, most: int, types: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """The newest `most` of the last `since_s` seconds, oldest first. `types` None: of all."""
        given = {"since_s": since_s, "most": most, "types": None if types is None else list(types)}
        rows = self._tx.execute(_RECENT, given).mappings().all()
        return [dict(row) for row in reversed(rows)]

    def prune(self, older_than_s: float, most: int) -> int:
        """Delete at most `most` old events; how many."""
        return self._tx.execute(_PRUNE, {"age_s": older_than_s, "most": most}).rowcount


_APPEND = text("""
    INSERT INTO events (at, type, pool, endpoint, job_id, facts)
    SELECT now() - make_interval(secs => age_s), type, pool, endpoint, job_id, facts
    FROM jsonb_to_recordset(CAST(:records AS jsonb))
        AS r (age_s float8, type text, pool text, endpoint text, job_id bigint, facts jsonb)
    ORDER BY age_s DESC
""")

_RECENT = text("""
    SELECT at, type, pool, endpoint, job_id, facts FROM events
    WHERE at > clock_timestamp() - make_interval(secs => :since_s)
      AND (CAST(:types AS text[]) IS NULL OR type = ANY(:types))
    ORDER BY at DESC, id DESC LIMIT :most
""")

_PRUNE = text("""
    DELETE FROM events WHERE id IN (
        SELECT id FROM events WHERE at < clock_timestamp() - make_interval(secs => :age_s)
        ORDER BY at LIMIT :most)
""")
