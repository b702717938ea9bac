"""jobs, items, chunks and results: the batch work itself."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from app.domain.chunks import ChunkState
from app.domain.jobs import Failover, JobState
from app.domain.results import Status
from app.storage.tables.metadata import document, metadata, moment, one_of

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False, unique=True),
    Column("request_hash", LargeBinary, nullable=False),
    document("params"),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("weight", Float, nullable=False, server_default="1"),
    Column("max_in_flight", Integer),
    # Whether its calls may be closed in the middle when a person needs the place.
    Column("may_yield", Boolean, nullable=False, server_default=text("true")),
    # Whether they then go on from what they had given, instead of from the start.
    Column("resume_streamed", Boolean, nullable=False, server_default=text("false")),
    moment("deadline_at"),
    # Whose job it is: fair share goes by tenant first.
    Column("tenant", Text, nullable=False, server_default="default"),
    # Jobs that must be completed before this one runs.
    Column("after", ARRAY(BigInteger), nullable=False, server_default="{}"),
    # Hours in which it may run: {"from": "22:00", "to": "06:00", "timezone": …}.
    document("window", required=False),
    # What it does when no primary endpoint can serve it.
    Column("failover", Text, nullable=False, server_default=Failover.WAIT.value),
    # Money after which it pauses.
    Column("budget", Float),
    # The source's identity; vectors that it gave before and gives no more are deleted at the end.
    Column("source", LargeBinary),
    Column("delete_missing", Boolean, nullable=False, server_default=text("false")),
    Column("deleted", BigInteger, nullable=False, server_default="0"),
    # Where to tell its end: {"url": …, "secret_env": …}.
    document("webhook", required=False),
    Column("pool", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("total", BigInteger, nullable=False, server_default="0"),
    Column("skipped_lines", BigInteger, nullable=False, server_default="0"),
    moment("created_at", stamped=True),
    moment("ready_at"),
    moment("started_at"),
    moment("finished_at"),
    # When a chunk of it was last leased: whoever waited longer goes first.
    moment("served_at"),
    # When retention had deleted its items and results; the counts stay.
    moment("pruned_at"),
    one_of("state", "state", JobState),
    one_of("failover", "failover", Failover),
    Index("ix_jobs_claimable", "pool", "id", postgresql_where=text("state IN ('ready','running')")),
)

# No foreign key on items and results: its trigger would run once a row while a million are loaded.
# Retention deletes them with their job in one transaction.
items = Table(
    "items",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    document("payload"),
    UniqueConstraint("job_id", "key"),
)

chunks = Table(
    "chunks",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("no", Integer, primary_key=True, autoincrement=False),
    # The job's pool again: leases are counted a pool, at every claim, without a join.
    Column("pool", Text, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("seqs", ARRAY(BigInteger)),
    Column("items", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", SmallInteger, nullable=False, server_default="0"),
    Column("crashes", SmallInteger, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("worker", Text),
    Column("endpoint", Text),
    moment("leased_at"),
    moment("lease_until"),
    Column("yield_requested", Boolean, nullable=False, server_default=text("false")),
    moment("not_before"),
    Column("ok", Integer, nullable=False, server_default="0"),
    Column("unchanged", Integer, nullable=False, server_default="0"),
    Column("empty", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("prompt_tokens", BigInteger, nullable=False, server_default="0"),
    Column("completion_tokens", BigInteger, nullable=False, server_default="0"),
    # Time for which a place was held for the chunk, over all its leases.
    Column("held_s", Float, nullable=False, server_default="0"),
    # Tokens read and given by calls that were closed to give their place back.
    Column("wasted_tokens", BigInteger, nullable=False, server_default="0"),
    # What its calls cost, by the prices of the endpoints that answered.
    Column("money", Float, nullable=False, server_default="0"),
    Column("error_code", Text),
    Column("error", Text),
    one_of("state", "state", ChunkState),
    Index("ix_chunks_ready", "job_id", "no", postgresql_where=text("state = 'ready'")),
    # lease_until is in no index, so that a heartbeat stays a HOT update.
    Index("ix_chunks_leased", "pool", "leased_at", postgresql_where=text("state = 'leased'")),
    postgresql_with={"fillfactor": "60"},
)

results = Table(
    "results",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # The chunk whose counts hold this result.
    Column("chunk_no", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("code", Text),
    Column("error", Text),
    Column("endpoint", Text),
    # The model that answered; None: the job's own.
    Column("model", Text),
    Column("tokens", Integer, nullable=False, server_default="0"),
    document("output", required=False),
    one_of("status", "status", Status),
    Index("ix_results_failed", "job_id", "seq", postgresql_where=text("status = 'failed'")),
)

# What an item of several steps has got so far: insert-only, so that no step is paid for twice.
# Gone with the item's result.
steps = Table(
    "steps",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("endpoint", Text),
    Column("tokens", Integer, nullable=False, server_default="0"),
    document("output"),
)

# What an item's call had given when it was closed, for the next one to go on from. Gone with the
# item's result. No foreign key, as with items.
begun_answers = Table(
    "begun_answers",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # Hash of the request that it answers: no other one goes on from it.
    Column("asked", LargeBinary, nullable=False),
    Column("output", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
)

# One row a call, pruned after a while: how batch fares at the endpoints, and how much gets done.
batch_calls = Table(
    "batch_calls",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("pool", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("model", Text),
    moment("ended_at", required=True),
    Column("seconds", Float, nullable=False),
    # Of streamed calls only.
    Column("first_token_s", Float),
    Column("items", Integer, nullable=False),
    Column("prompt_tokens", Integer, nullable=False, server_default="0"),
    Column("completion_tokens", Integer, nullable=False, server_default="0"),
    Column("money", Float, nullable=False, server_default="0"),
    # The server told no usage, and nobody could count: its tokens are a guess.
    Column("rough", Boolean, nullable=False, server_default=text("false")),
    Column("error_code", Text),
    Index("ix_batch_calls_window", "pool", "ended_at"),
)
