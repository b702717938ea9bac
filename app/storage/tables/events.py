"""events: what happened, for the report and for whoever looks back. Ids and numbers, no texts."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Identity, Index, Table, Text

from app.storage.tables.metadata import document, metadata, moment

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    moment("at", stamped=True),
    Column("type", Text, nullable=False),
    Column("pool", Text),
    Column("endpoint", Text),
    Column("job_id", BigInteger),
    document("facts"),
    Index("ix_events_recent", "at"),
)
