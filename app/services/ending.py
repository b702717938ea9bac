"""A job's end, written down for whoever is to be told, in the transaction that ends it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from app.domain.webhooks import body
from app.storage.job_store import JobStore
from app.storage.progress_store import ProgressStore
from app.storage.webhook_store import NewDelivery, WebhookStore


def note_end(tx: Connection, job_ids: Sequence[int]) -> None:
    """These jobs have just ended: a delivery for each that has a webhook."""
    if not job_ids:
        return
    jobs = JobStore(tx).with_webhook(job_ids)
    progress = ProgressStore(tx).progress([job.id for job in jobs])
    WebhookStore(tx).add(
        [
            NewDelivery(
                job.id, job.webhook["url"], job.webhook["secret_env"], body(job, progress[job.id])
            )
            for job in jobs
            if job.webhook is not None
        ]
    )
