"""Evaluation runs: every item of one with the scores it has, and what its content is known by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, text

from app.storage.paging import ROWS


class EvaluationStore:
    """Reads over `items` and `results`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def scored(self, job_id: int) -> Iterator[Any]:
        """Each item in order: key, content (equal where question and expected answer are), status
        (None: no result yet), code, scores; streamed, without any text."""
        streamed = self._tx.execution_options(stream_results=True, max_row_buffer=2000)
        yield from streamed.execute(_SCORED, {"job_id": job_id})

    def shown(self, job_id: int, after: int) -> Sequence[Any]:
        """A page of items with a result, those after seq `after`: seq, key, status, code, question,
        expected, output."""
        values = {"job_id": job_id, "after": after, "most": ROWS}
        return self._tx.execute(_SHOWN, values).all()


_SCORED = text("""
    SELECT i.key, encode(sha256(convert_to(
               jsonb_build_array(i.payload->'text', i.payload->'expected')::text, 'UTF8')), 'hex')
               AS content,
           r.status, r.code, r.output->'scores' AS scores
    FROM items i LEFT JOIN results r ON r.job_id = i.job_id AND r.seq = i.seq
    WHERE i.job_id = :job_id ORDER BY i.seq
""")

_SHOWN = text("""
    SELECT i.seq, i.key, r.status, r.code, i.payload->'text' AS question,
           i.payload->'expected' AS expected, r.output
    FROM items i JOIN results r ON r.job_id = i.job_id AND r.seq = i.seq
    WHERE i.job_id = :job_id AND i.seq > :after ORDER BY i.seq LIMIT :most
""")
