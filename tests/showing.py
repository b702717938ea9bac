"""Tasks for tests, inside a real worker (`-I tests.showing`): what its own sessions are like."""

from __future__ import annotations

import os
from typing import Any

from celery import current_app, shared_task
from sqlalchemy import text

SETTINGS = ("idle_in_transaction_session_timeout", "statement_timeout", "TimeZone")


@shared_task(name="tests.show", ignore_result=False)
def show(hold_s: float) -> dict[str, Any]:
    """What Postgres says of the session that this worker works in, held for `hold_s`."""
    database = current_app.giveway.database
    with database.transaction() as tx:
        told = {name: tx.execute(text(f"SHOW {name}")).scalar_one() for name in SETTINGS}
        backend = tx.execute(
            text("SELECT pg_backend_pid() FROM pg_sleep(:s)"), {"s": hold_s}
        ).scalar_one()
    pool = database.engine.pool
    most = pool.size() + pool._max_overflow
    return {"process": os.getpid(), "backend": backend, "most": most, **told}
