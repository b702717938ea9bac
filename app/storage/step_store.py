"""Steps: what items of several calls have got so far, insert-only, under the chunk's fence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.chunks import Lease


@dataclass(frozen=True, slots=True)
class StoredStep:
    """An answer under its step's name. `output` is JSON; `tokens` are those of the whole call."""

    name: str
    output: Any
    tokens: int
    endpoint: str | None = None


class StepStore:
    """Queries on `steps`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def record(self, lease: Lease, seq: int, step: StoredStep) -> bool:
        """Insert an answer; False: one of that name is there. The caller holds the lease."""
        values = {
            "job_id": lease.job_id,
            "seq": seq,
            "name": step.name,
            "endpoint": step.endpoint,
            "tokens": step.tokens,
            "output": orjson.dumps(step.output).decode(),
        }
        return self._tx.execute(_RECORD, values).rowcount == 1

    def of(self, job_id: int, seqs: Sequence[int]) -> dict[int, list[StoredStep]]:
        """The answers that these items have, by item; those with none are left out."""
        if not seqs:
            return {}
        found: dict[int, list[StoredStep]] = {}
        for row in self._tx.execute(_OF, {"job_id": job_id, "seqs": list(seqs)}):
            step = StoredStep(row.name, row.output, row.tokens, row.endpoint)
            found.setdefault(row.seq, []).append(step)
        return found

    def forget(self, job_id: int, seqs: Sequence[int]) -> int:
        """Delete the answers of items that have their result; how many."""
        return self._tx.execute(_FORGET, {"job_id": job_id, "seqs": list(seqs)}).rowcount


_RECORD = text("""
    INSERT INTO steps (job_id, seq, name, endpoint, tokens, output)
    VALUES (:job_id, :seq, :name, :endpoint, :tokens, CAST(:output AS jsonb))
    ON CONFLICT DO NOTHING
""")

_OF = text("""
    SELECT seq, name, endpoint, tokens, output FROM steps
    WHERE job_id = :job_id AND seq = ANY(:seqs) ORDER BY seq, name
""")

_FORGET = text("DELETE FROM steps WHERE job_id = :job_id AND seq = ANY(:seqs)")
