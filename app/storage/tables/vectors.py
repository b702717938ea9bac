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
    # The collection that this one was made to replace, by `embeddings reembed`.
    Column("replaces", Text),
    moment("created_at", stamped=True),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("collection_id", ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    # Long texts are split: 0 is the first piece, or the whole text.
    Column("piece", Integer, primary_key=True, autoincrement=False, server_default="0"),
    # Where in the item's text the piece stands, in characters; None: all of it.
    Column("begins", Integer),
    Column("ends", Integer),
    # The source that gave the item: what it gives no more is deleted, what others gave is not.
    Column("source", LargeBinary),
    # Of the whole text, so that any change of it replaces all of its pieces.
    Column("content_hash", LargeBinary, nullable=False),
    Column("vector", VECTOR(), nullable=False),
    # Where the text stands: items (job_id, seq).
    Column("job_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    moment("embedded_at", stamped=True),
)
