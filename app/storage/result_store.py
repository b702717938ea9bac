"""Results: insert-only, one a (job, item); a checkpoint copies them in under the chunk's fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.chunks import Lease
from app.domain.results import ItemResult
from app.storage.database import driver
from app.storage.paging import ROWS


class ResultStore:
    """Queries on `results`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def record(self, lease: Lease, results: Sequence[ItemResult], model: str | None = None) -> int:
        """Insert results that are not there; how many were new. The caller holds the lease.

        `model` is the one that answered where it is not the job's own.
        """
        self._tx.execute(_STAGE)
        with (
            driver(self._tx).cursor() as cursor,
            cursor.copy("COPY staged_results FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["int8", "text", "text", "text", "int4", "jsonb"])
            for r in results:
                output = None if r.output is None else _json(r.output)
                copy.write_row((r.seq, r.status.value, r.code, r.error, r.tokens, output))
        values = {
            "job_id": lease.job_id,
            "no": lease.no,
            "endpoint": lease.endpoint,
            "model": model,
        }
        return self._tx.execute(_INSERT, values).rowcount

    def fail_one(self, job_id: int, chunk_no: int, seq: int, code: str, error: str) -> int:
        """Record one item as failed if it has no result; how many (0 or 1)."""
        return self._tx.execute(
            _FAIL_ONE,
            {"job_id": job_id, "no": chunk_no, "seq": seq, "code": code, "error": error},
        ).rowcount

    def failures(self, job_id: int, most: int) -> list[dict[str, Any]]:
        """Failed items: key, code, error."""
        rows = self._tx.execute(_FAILURES, {"job_id": job_id, "most": most}).mappings()
        return [dict(row) for row in rows]

    def failure_codes(self, job_id: int) -> dict[str, int]:
        """How many items failed, by code."""
        rows = self._tx.execute(_CODES, {"job_id": job_id})
        return {row.code: row.n for row in rows}

    def exported(self, job_id: int, after: int) -> list[tuple[int, dict[str, Any]]]:
        """A page of a job's results by seq, those after `after`: (seq, what is told of it)."""
        return self._page(_EXPORTED, job_id, after)

    def with_items(self, job_id: int, after: int) -> list[tuple[int, dict[str, Any]]]:
        """The same, with the item's fields as `payload`."""
        return self._page(_WITH_ITEMS, job_id, after)

    def _page(self, statement: Any, job_id: int, after: int) -> list[tuple[int, dict[str, Any]]]:
        values = {"job_id": job_id, "after": after, "most": ROWS}
        rows = (dict(row) for row in self._tx.execute(statement, values).mappings())
        return [(row.pop("seq"), row) for row in rows]


def _json(value: Any) -> Any:
    from psycopg.types.json import Jsonb

    return Jsonb(value, dumps=orjson.dumps)


_STAGE = text("""
    CREATE TEMP TABLE IF NOT EXISTS staged_results (seq bigint, status text, code text,
        error text, tokens int, output jsonb) ON COMMIT DELETE ROWS
""")

_INSERT = text("""
    INSERT INTO results (job_id, seq, chunk_no, status, code, error, endpoint, model, tokens,
        output)
    SELECT :job_id, seq, :no, status, code, error, :endpoint, :model, tokens, output
    FROM staged_results
    ON CONFLICT DO NOTHING
""")

_FAIL_ONE = text("""
    INSERT INTO results (job_id, seq, chunk_no, status, code, error)
    VALUES (:job_id, :seq, :no, 'failed', :code, :error) ON CONFLICT DO NOTHING
""")

_FAILURES = text("""
    SELECT i.key, r.code, r.error FROM results r
    JOIN items i ON i.job_id = r.job_id AND i.seq = r.seq
    WHERE r.job_id = :job_id AND r.status = 'failed' ORDER BY r.seq LIMIT :most
""")

_CODES = text("""
    SELECT coalesce(code, 'unknown') AS code, count(*) AS n FROM results
    WHERE job_id = :job_id AND status = 'failed' GROUP BY 1 ORDER BY 2 DESC
""")

_WITH_ITEMS = text("""
    SELECT r.seq, i.key, i.payload, r.status, r.code, r.error, r.tokens, r.output FROM results r
    JOIN items i ON i.job_id = r.job_id AND i.seq = r.seq
    WHERE r.job_id = :job_id AND r.seq > :after ORDER BY r.seq LIMIT :most
""")

_EXPORTED = text("""
    SELECT r.seq, i.key, r.status, r.code, r.error, r.tokens, r.output FROM results r
    JOIN items i ON i.job_id = r.job_id AND i.seq = r.seq
    WHERE r.job_id = :job_id AND r.seq > :after ORDER BY r.seq LIMIT :most
""")
