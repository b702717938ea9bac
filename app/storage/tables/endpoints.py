"""endpoints: those declared and those added at run time, the health that all processes share, and
what is spent of each one's rate budget."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
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

from app.domain.health import Breaker
from app.storage.tables.metadata import document, metadata, moment, one_of

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
    # The whole declaration of one that was added at run time; None: the settings declare it.
    document("added", required=False),
    # It gets nothing new; what it has, it finishes.
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    Column("breaker", Text, nullable=False, server_default=Breaker.CLOSED.value),
    # Failures in a row that count for the breaker.
    Column("failures", Integer, nullable=False, server_default="0"),
    # Times the breaker has opened without closing in between: each one waits longer.
    Column("openings", Integer, nullable=False, server_default="0"),
    moment("open_until"),
    # Who probes a half-open endpoint, until when.
    moment("probe_until"),
    # Task and model of the last request whose failure counted: only an answer to such a one clears
    # what it says, and with such a one the endpoint is probed.
    Column("failed_task", Text),
    Column("failed_model", Text),
    # How many times as long as its peers it takes, lately; None: not known.
    Column("pace", Float),
    # So much slower than its peers that it gets work only when they are full.
    Column("slow", Boolean, nullable=False, server_default=text("false")),
    # Until then batch has used its share of the rate budget.
    moment("spent_until"),
    # Refusals in a row; a good answer sets it to nought.
    Column("refusals", Integer, nullable=False, server_default="0"),
    moment("cool_until"),
    Column("error_code", Text),
    moment("updated_at", stamped=True),
    one_of("breaker", "breaker", Breaker),
)

# What was reserved of an endpoint's requests and tokens a minute, and what it came to. Rows of more
# than a minute ago are pruned.
rate_reservations = Table(
    "rate_reservations",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("endpoint", Text, nullable=False),
    moment("at", required=True),
    Column("requests", Integer, nullable=False, server_default="1"),
    Column("tokens", Integer, nullable=False),
    Column("settled", Boolean, nullable=False, server_default=text("false")),
    Column("interactive", Boolean, nullable=False, server_default=text("false")),
    Index("ix_rate_reservations_window", "endpoint", "at"),
)

# How many items of what size an endpoint carries well, as learnt from its calls.
endpoint_knees = Table(
    "endpoint_knees",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("items", Float, nullable=False),
    Column("tokens", Float, nullable=False),
    document("state", required=False),
    moment("updated_at", stamped=True),
)

# Where automatic scaling of a pool stands.
scalers = Table(
    "scalers",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("wanted", Integer, nullable=False),
    document("state", required=False),
    moment("updated_at", stamped=True),
)
