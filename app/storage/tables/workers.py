"""workers: the Celery workers that run, and what each of them knows how to do."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY

from app.storage.tables.metadata import document, metadata, moment

workers = Table(
    "workers",
    metadata,
    # One life of one process: its name, and a part that no other process shares.
    Column("name", Text, primary_key=True),
    Column("queues", ARRAY(Text), nullable=False),
    Column("kinds", ARRAY(Text), nullable=False),
    # By pool, the models that its settings declare.
    document("serves"),
    # By endpoint, the variable of its key that is not set where this worker runs.
    document("unset"),
    moment("started_at", stamped=True),
    moment("seen_at", stamped=True),
)
