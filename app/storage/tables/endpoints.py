"""endpoints: the health that all processes share."""

from __future__ import annotations

from sqlalchemy import ARRAY, Column, Integer, Table, Text

from app.storage.tables.metadata import metadata, moment

endpoints = Table(
    "endpoints",
    metadata,
    Column("name", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("base_url", Text, nullable=False),
    Column("models", ARRAY(Text), nullable=False),
    Column("max_concurrency", Integer, nullable=False),
    Column("role", Text, nullable=False),
    # Refusals in a row; a good answer sets it to nought.
    Column("refusals", Integer, nullable=False, server_default="0"),
    moment("cool_until"),
    Column("error_code", Text),
    moment("updated_at", stamped=True),
)
