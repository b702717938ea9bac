"""Batch calls: a row each, written with the checkpoint, read by the window, pruned."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, text

from app.domain.estimates import Pace


@dataclass(frozen=True, slots=True)
class BatchCall:
    """One call of a micro-batch. `first_token_s` is None where it did not stream. `model` is the
    one that was asked. `rough`: its tokens are a guess."""

    job_id: int
    pool: str
    endpoint: str
    model: str
    seconds: float
    items: int
    first_token_s: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0
    rough: bool = False
    error_code: str | None = None


class CallStore:
    """Queries on `batch_calls`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def record(self, call: BatchCall) -> None:
        """The call ended, now."""
        self._tx.execute(_RECORD, asdict(call))

    def pace(self, pool: str, kind: str, model: str) -> Pace | None:
        """The newest successful calls of such jobs, a few hundred of the last day; None: none."""
        row = self._tx.execute(_PACE, {"pool": pool, "kind": kind, "model": model}).one()
        if not row.calls:
            return None
        return Pace(row.calls, row.items, row.seconds, row.prompt_tokens, row.completion_tokens)

    def prune(self, older_than_s: float, most: int) -> int:
        """Delete at most `most` old rows; how many."""
        return self._tx.execute(_PRUNE, {"age_s": older_than_s, "most": most}).rowcount


_RECORD = text("""
    INSERT INTO batch_calls (job_id, pool, endpoint, model, ended_at, seconds, first_token_s, items,
        prompt_tokens, completion_tokens, money, rough, error_code)
    VALUES (:job_id, :pool, :endpoint, :model, clock_timestamp(), :seconds, :first_token_s, :items,
        :prompt_tokens, :completion_tokens, :money, :rough, :error_code)
""")

_PACE = text("""
    SELECT count(*) AS calls, coalesce(sum(items), 0) AS items,
        coalesce(sum(seconds), 0) AS seconds,
        coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
        coalesce(sum(completion_tokens), 0) AS completion_tokens
    FROM (
        SELECT c.items, c.seconds, c.prompt_tokens, c.completion_tokens
        FROM batch_calls c JOIN jobs j ON j.id = c.job_id
        WHERE c.pool = :pool AND c.ended_at > now() - interval '1 day' AND c.error_code IS NULL
            AND c.model = :model AND j.kind = :kind
        ORDER BY c.ended_at DESC LIMIT 500) AS newest
""")

_PRUNE = text("""
    DELETE FROM batch_calls WHERE id IN (
        SELECT id FROM batch_calls
        WHERE ended_at < clock_timestamp() - make_interval(secs => :age_s)
        ORDER BY id LIMIT :most)
""")
