"""collections and their embeddings."""

from __future__ import annotations

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from app.storage.tables.metadata import metadata, moment

collections = Table(
    "collections",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("model", Text, nullable=False),
    # Known with the first vector; from then on every vector must have it.
    Column("dimension", Integer),
    moment("created_at", stamped=True),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("collection_id", ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("content_hash", LargeBinary, nullable=False),
    Column("vector", VECTOR(), nullable=False),
    # Where the text stands: items (job_id, seq).
    Column("job_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    moment("embedded_at", stamped=True),
)
