"""A checkpoint's results, its chunk's counts and its call: one statement, done once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.chunks import Lease
from app.domain.results import ItemResult
from app.storage.call_store import BatchCall
from app.storage.lease_store import Tally


class CheckpointStore:
    """Writes to `results`, `chunks` and `batch_calls`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def write(
        self,
        lease: Lease,
        results: Sequence[ItemResult],
        tally: Tally,
        call: BatchCall | None = None,
        model: str | None = None,
        *,
        dropped: int = 0,
        anyway: bool = False,
    ) -> None:
        """Insert results that are not there; if some were new, or `anyway`, count `tally`, the
        `dropped` tokens and the call. The caller holds the lease.

        Nothing new: an earlier commit went through and only its answer was lost. `model` is the one
        that answered where it is not the job's own. Progress was made, so crashes count from nought
        again.
        """
        values: dict[str, Any] = {name: getattr(tally, name) for name in Tally.__slots__}
        values |= {"job_id": lease.job_id, "no": lease.no, "fence": lease.fence}
        values |= {"at": lease.endpoint, "answered": model, "anyway": anyway, "wasted": dropped}
        values["rows"] = orjson.dumps([_row(one) for one in results]).decode()
        if call is None:
            self._tx.execute(_WITHOUT_CALL, values)
        else:
            told = {f"call_{name}": value for name, value in asdict(call).items()}
            self._tx.execute(_WITH_CALL, values | told)


def _row(result: ItemResult) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seq": result.seq,
        "status": result.status,
        "tokens": result.tokens,
    }
    for name in ("code", "error", "output"):
        value = getattr(result, name)
        if value is not None:
            row[name] = value
    return row


_COUNTED = """
    WITH new AS (
        INSERT INTO results (job_id, seq, chunk_no, status, code, error, endpoint, model, tokens,
            output)
        SELECT CAST(:job_id AS bigint), seq, CAST(:no AS int), status, code, error,
            CAST(:at AS text), CAST(:answered AS text), tokens, output
        FROM jsonb_to_recordset(CAST(:rows AS jsonb))
            AS given (seq bigint, status text, code text, error text, tokens int, output jsonb)
        ON CONFLICT DO NOTHING RETURNING 1
    ), fresh AS MATERIALIZED (
        SELECT count(*) > 0 OR CAST(:anyway AS boolean) AS yes FROM new
    ), counted AS (
        UPDATE chunks SET crashes = 0, ok = ok + CAST(:ok AS int),
            unchanged = unchanged + CAST(:unchanged AS int),
            empty = empty + CAST(:empty AS int), failed = failed + CAST(:failed AS int),
            prompt_tokens = prompt_tokens + CAST(:prompt_tokens AS bigint),
            completion_tokens = completion_tokens + CAST(:completion_tokens AS bigint),
            money = money + CAST(:money AS float8),
            wasted_tokens = wasted_tokens + CAST(:wasted AS bigint)
        FROM fresh
        WHERE fresh.yes AND job_id = :job_id AND no = :no AND fence = :fence AND state = 'leased'
    )
"""

_WITHOUT_CALL = text(f"{_COUNTED} SELECT yes FROM fresh")

_WITH_CALL = text(f"""{_COUNTED}
    INSERT INTO batch_calls (job_id, pool, endpoint, model, ended_at, seconds, first_token_s, items,
        prompt_tokens, completion_tokens, money, rough, error_code)
    SELECT CAST(:call_job_id AS bigint), CAST(:call_pool AS text), CAST(:call_endpoint AS text),
        CAST(:call_model AS text), clock_timestamp(), CAST(:call_seconds AS float8),
        CAST(:call_first_token_s AS float8), CAST(:call_items AS int),
        CAST(:call_prompt_tokens AS int), CAST(:call_completion_tokens AS int),
        CAST(:call_money AS float8), CAST(:call_rough AS boolean), CAST(:call_error_code AS text)
    FROM fresh WHERE fresh.yes
""")
