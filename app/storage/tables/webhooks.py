"""webhook_deliveries: what is to be told to whom, until it has been heard."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Identity, Index, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import UUID

from app.domain.webhooks import DeliveryState
from app.storage.tables.metadata import document, metadata, moment, one_of

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    # The receiver's means to know one that it has had already.
    Column("message_id", UUID(as_uuid=True), nullable=False, unique=True),
    Column("job_id", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    # The *name* of the environment variable that holds the signing secret.
    Column("secret_env", Text, nullable=False),
    document("body"),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    moment("not_before", stamped=True),
    moment("created_at", stamped=True),
    moment("finished_at"),
    Column("status", Integer),
    Column("error", Text),
    one_of("state", "state", DeliveryState),
    Index("ix_webhook_deliveries_due", "not_before", postgresql_where=text("state = 'waiting'")),
)
