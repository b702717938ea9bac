"""schedules and their runs: a run of a nominal time is launched once, whoever ticks."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
)

from app.domain.schedules import Missed, Overlap, RunState, ScheduleState
from app.storage.tables.metadata import document, metadata, moment, one_of

schedules = Table(
    "schedules",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("cron", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("missed", Text, nullable=False),
    # Runs missed by more than this are not made up for, in seconds.
    Column("missed_within_s", Float, nullable=False),
    Column("overlap", Text, nullable=False),
    Column("jitter_s", Float, nullable=False, server_default="0"),
    # Done by this wall clock time after the nominal one, such as 06:00; None: no deadline.
    Column("done_by", Text),
    # What is submitted: kind, parameters, source, options.
    document("template"),
    moment("created_at", stamped=True),
    # Nominal times after this one are looked at next.
    moment("seen_until", required=True),
    one_of("state", "state", ScheduleState),
    one_of("missed", "missed", Missed),
    one_of("overlap", "overlap", Overlap),
)

schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("schedule_id", ForeignKey("schedules.id", ondelete="CASCADE"), primary_key=True),
    Column("nominal_at", DateTime(timezone=True), primary_key=True),
    # When it is really to begin: the nominal time and its jitter.
    moment("due_at", required=True),
    Column("state", Text, nullable=False),
    Column("job_id", BigInteger),
    Column("reason", Text),
    Column("attempt", Integer, nullable=False, server_default="0"),
    moment("lease_until"),
    moment("launched_at"),
    one_of("state", "state", RunState),
    Index("ix_schedule_runs_due", "state", "due_at"),
)
