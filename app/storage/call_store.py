"""Batch calls: a row each, written with the checkpoint, read by the window, pruned."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class BatchCall:
    """One call of a micro-batch. `first_token_s` is None where it did not stream."""

    job_id: int
    pool: str
    endpoint: str
    seconds: float
    items: int
    first_token_s: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error_code: str | None = None


class CallStore:
    """Queries on `batch_calls`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def record(self, call: BatchCall) -> None:
        """The call ended, now."""
        self._tx.execute(_RECORD, asdict(call))

    def prune(self, older_than_s: float, most: int) -> int:
        """Delete at most `most` old rows; how many."""
        return self._tx.execute(_PRUNE, {"age_s": older_than_s, "most": most}).rowcount


_RECORD = text("""
    INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, first_token_s, items,
        prompt_tokens, completion_tokens, error_code)
    VALUES (:job_id, :pool, :endpoint, clock_timestamp(), :seconds, :first_token_s, :items,
        :prompt_tokens, :completion_tokens, :error_code)
""")

_PRUNE = text("""
    DELETE FROM batch_calls WHERE id IN (
        SELECT id FROM batch_calls
        WHERE ended_at < clock_timestamp() - make_interval(secs => :age_s)
        ORDER BY id LIMIT :most)
""")
