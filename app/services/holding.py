"""What holds a job back that could run: jobs that come first, and its hours."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from app.domain.jobs import Job
from app.domain.waiting import Waiting, held_by_conditions
from app.storage.after_store import AfterStore


def held_back(tx: Connection, job: Job, now: datetime) -> Waiting | None:
    """Why the job may not run at `now`; None: it may. Asks nothing of a job without conditions."""
    keys = AfterStore(tx).uncompleted(job.after) if job.after else ()
    return held_by_conditions(job, keys, now)
