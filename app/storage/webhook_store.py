"""webhook_deliveries: written with a job's end, sent later, until heard or given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """What is to be told to whom. `secret_env` names the variable with the signing secret."""

    job_id: int
    url: str
    secret_env: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One to be sent now. `attempt` counts this one, and is its fence."""

    id: int
    message_id: UUID
    job_id: int
    url: str
    secret_env: str
    body: Mapping[str, Any]
    attempt: int


class WebhookStore:
    """Queries on `webhook_deliveries`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def add(self, deliveries: Sequence[NewDelivery]) -> None:
        """Write them down, each with an id by which its receiver knows it again."""
        if not deliveries:
            return
        values = {
            "ids": [uuid4() for _ in deliveries],
            "jobs": [one.job_id for one in deliveries],
            "urls": [one.url for one in deliveries],
            "secrets": [one.secret_env for one in deliveries],
            "bodies": [orjson.dumps(dict(one.body)).decode() for one in deliveries],
        }
        self._tx.execute(_ADD, values)

    def take(self, most: int, lease_s: float) -> list[Delivery]:
        """Those whose time has come, an attempt counted; again due after `lease_s` unless settled.

        Locks their rows, passing over what another process takes.
        """
        rows = self._tx.execute(_TAKE, {"most": most, "lease_s": lease_s}).mappings()
        return [Delivery(**row) for row in rows]

    def delivered(self, delivery: Delivery, status: int) -> None:
        """It was heard."""
        self._settle(delivery, "delivered", status, None)

    def given_up(self, delivery: Delivery, status: int | None, error: str) -> None:
        """It is not sent again."""
        self._settle(delivery, "given_up", status, error)

    def again(self, delivery: Delivery, after_s: float, status: int | None, error: str) -> None:
        """It is sent again after `after_s`."""
        values = {"id": delivery.id, "attempt": delivery.attempt, "after_s": after_s}
        self._tx.execute(_AGAIN, values | {"status": status, "error": error})

    def listed(self, job_id: int) -> list[dict[str, Any]]:
        """What was told about a job, oldest first."""
        return [dict(row) for row in self._tx.execute(_LISTED, {"job_id": job_id}).mappings()]

    def prune(self, older_than_s: float, most: int) -> int:
        """Delete at most `most` that ended long ago; how many."""
        return self._tx.execute(_PRUNE, {"age_s": older_than_s, "most": most}).rowcount

    def _settle(
        self, delivery: Delivery, state: str, status: int | None, error: str | None
    ) -> None:
        values = {"id": delivery.id, "attempt": delivery.attempt, "state": state}
        self._tx.execute(_SETTLE, values | {"status": status, "error": error})


_ADD = text("""
    INSERT INTO webhook_deliveries (message_id, job_id, url, secret_env, body, state)
    SELECT message_id, job_id, url, secret_env, CAST(body AS jsonb), 'waiting'
    FROM unnest(CAST(:ids AS uuid[]), CAST(:jobs AS bigint[]), CAST(:urls AS text[]),
                CAST(:secrets AS text[]), CAST(:bodies AS text[]))
        AS told (message_id, job_id, url, secret_env, body)
""")
_TAKE = text("""
    WITH due AS (
        SELECT id FROM webhook_deliveries
        WHERE state = 'waiting' AND not_before <= clock_timestamp()
        ORDER BY not_before LIMIT :most FOR UPDATE SKIP LOCKED
    )
    UPDATE webhook_deliveries d SET attempt = d.attempt + 1,
        not_before = clock_timestamp() + make_interval(secs => :lease_s)
    FROM due WHERE d.id = due.id
    RETURNING d.id, d.message_id, d.job_id, d.url, d.secret_env, d.body, d.attempt
""")
_OURS = "id = :id AND attempt = :attempt AND state = 'waiting'"
_SETTLE = text(f"""
    UPDATE webhook_deliveries SET state = :state, status = :status, error = :error,
        finished_at = clock_timestamp() WHERE {_OURS}
""")
_AGAIN = text(f"""
    UPDATE webhook_deliveries SET status = :status, error = :error,
        not_before = clock_timestamp() + make_interval(secs => :after_s) WHERE {_OURS}
""")
_LISTED = text("""
    SELECT message_id, url, state, attempt, status, error, created_at, not_before, finished_at
    FROM webhook_deliveries WHERE job_id = :job_id ORDER BY id
""")
_PRUNE = text("""
    DELETE FROM webhook_deliveries WHERE id IN (
        SELECT id FROM webhook_deliveries
        WHERE finished_at < clock_timestamp() - make_interval(secs => :age_s)
        ORDER BY id LIMIT :most)
""")
