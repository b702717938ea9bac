"""The tables, as SQLAlchemy Core: the truth that migrations must reach."""

from app.storage.tables.batch import batch_calls, chunks, items, jobs, results
from app.storage.tables.endpoints import endpoints
from app.storage.tables.interactive import interactive_requests
from app.storage.tables.metadata import metadata
from app.storage.tables.throttle import throttle_decisions, throttle_limits
from app.storage.tables.vectors import collections, embeddings

__all__ = [
    "batch_calls",
    "chunks",
    "collections",
    "embeddings",
    "endpoints",
    "interactive_requests",
    "items",
    "jobs",
    "metadata",
    "results",
    "throttle_decisions",
    "throttle_limits",
]
