"""The tables, as SQLAlchemy Core: the truth that migrations must reach."""

from app.storage.tables.batch import (
    batch_calls,
    begun_answers,
    chunks,
    items,
    jobs,
    results,
    steps,
)
from app.storage.tables.endpoints import endpoint_knees, endpoints, rate_reservations, scalers
from app.storage.tables.events import events
from app.storage.tables.interactive import detours, interactive_requests
from app.storage.tables.metadata import metadata
from app.storage.tables.schedules import schedule_runs, schedules
from app.storage.tables.throttle import throttle_decisions, throttle_limits
from app.storage.tables.vectors import collections, embeddings
from app.storage.tables.webhooks import webhook_deliveries
from app.storage.tables.workers import workers

__all__ = [
    "batch_calls",
    "begun_answers",
    "chunks",
    "collections",
    "detours",
    "embeddings",
    "endpoint_knees",
    "endpoints",
    "events",
    "interactive_requests",
    "items",
    "jobs",
    "metadata",
    "rate_reservations",
    "results",
    "scalers",
    "schedule_runs",
    "schedules",
    "steps",
    "throttle_decisions",
    "throttle_limits",
    "webhook_deliveries",
    "workers",
]
