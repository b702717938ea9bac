"""A job's budget: once its calls have cost that much, it pauses until a person raises it.

It is looked at before every call, so what is spent beyond it is at most what the calls in flight
cost at that moment: one micro-batch a place that the job holds.
"""

from __future__ import annotations

from math import isfinite

from sqlalchemy import Connection

from app.domain.jobs import CLAIMABLE, Job, JobState
from app.domain.pricing import budget_reason, is_spent, shown
from app.errors import UsageError
from app.storage.job_store import JobStore
from app.storage.progress_store import ProgressStore


def paused_by_budget(tx: Connection, job: Job, *, has_more: bool) -> bool:
    """Pause the job if its budget is spent and work is left; whether it is paused.

    `has_more`: work is left for sure. A job without a budget costs no query.
    """
    if job.budget is None:
        return False
    spent, is_ready = ProgressStore(tx).spent(job.id)
    if not is_spent(spent, job.budget) or not (has_more or is_ready):
        return False
    JobStore(tx).move(job.id, CLAIMABLE, JobState.PAUSED, budget_reason(spent, job.budget))
    return True


def check_budget(tx: Connection, job: Job, budget: float | None) -> None:
    """UsageError where the job, let run with `budget` (None: its own), would pause at once."""
    if budget is not None and not isfinite(budget):
        raise UsageError(f"a budget is a sum of money, not {budget:g}")
    bound = job.budget if budget is None else budget
    if bound is None:
        return
    spent, _ = ProgressStore(tx).spent(job.id)
    if is_spent(spent, bound):
        raise UsageError(
            f"job {job.key!r} has spent {shown(spent)} of its budget of {shown(bound)}; raise it: "
            f"giveway jobs resume {job.key} --budget MORE"
        )
