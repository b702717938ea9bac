"""throttle_limits and throttle_decisions: the limit in force, and why each one was chosen."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Identity, Index, Integer, Table, Text

from app.storage.tables.metadata import document, metadata, moment

throttle_limits = Table(
    "throttle_limits",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("value", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("pressure", Float, nullable=False, server_default="0"),
    Column("version", BigInteger, nullable=False, server_default="0"),
    document("state", required=False),
    moment("computed_at"),
    moment("valid_until"),
    # Settings of the pool that an operator changed at run time, over the declared ones.
    document("tuned", required=False),
    Column("override_value", Integer),
    moment("override_until"),
    Column("override_reason", Text),
    postgresql_with={"fillfactor": "50"},
)

throttle_decisions = Table(
    "throttle_decisions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("pool", Text, nullable=False),
    moment("computed_at", required=True),
    Column("value", Integer, nullable=False),
    Column("pressure", Float, nullable=False),
    Column("reason", Text, nullable=False),
    document("arguments"),
    document("result"),
    Index("ix_throttle_decisions_recent", "pool", "computed_at"),
)
