"""interactive_requests: where people's latency is stored. No prompt and no answer."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from app.domain.requests import RequestState
from app.storage.tables.metadata import metadata, moment, one_of

interactive_requests = Table(
    "interactive_requests",
    metadata,
    Column("id", UUID(as_uuid=True), primary_key=True),
    Column("pool", Text, nullable=False),
    Column("task_type", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("endpoint", Text),
    Column("user_id", Text),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("state", Text, nullable=False),
    Column("max_tokens", Integer),
    # Interactive requests of the pool in flight when this one came.
    Column("ahead", Integer, nullable=False, server_default="0"),
    moment("submitted_at", required=True),
    moment("started_at"),
    moment("first_token_at"),
    moment("finished_at"),
    moment("lease_until"),
    Column("worker", Text),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    # The endpoint's role, and the model that it was asked for: another one where it stands in.
    Column("role", Text),
    Column("answered_model", Text),
    # The person does not want it after this.
    moment("deadline_at"),
    # The person is gone: it is not sent, or its call is closed.
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    # Requests with the same number go to the endpoint in one call, and take one place.
    Column("rides_on", UUID(as_uuid=True)),
    Column("money", Float),
    # Its tokens are a guess.
    Column("rough", Boolean, nullable=False, server_default=text("false")),
    Column("error_code", Text),
    one_of("state", "state", RequestState),
    Index("ix_interactive_requests_window", "pool", "finished_at"),
    Index("ix_interactive_requests_arrivals", "pool", "submitted_at"),
    Index(
        "ix_interactive_requests_open",
        "pool",
        "submitted_at",
        postgresql_where=text("state IN ('queued','running')"),
    ),
    postgresql_with={"fillfactor": "80"},
)

# Calls that failed at one endpoint before another was asked: a request's own row tells of the last.
detours = Table(
    "detours",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("pool", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    moment("ended_at", required=True),
    Column("seconds", Float, nullable=False),
    Column("error_code", Text, nullable=False),
    Index("ix_detours_window", "pool", "ended_at"),
)
