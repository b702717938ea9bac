"""the first tables

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import pgvector.sqlalchemy
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    op.create_table(
        "batch_calls",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("first_token_s", sa.Float(), nullable=True),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("completion_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch_calls")),
    )
    op.create_index("ix_batch_calls_window", "batch_calls", ["pool", "ended_at"], unique=False)
    op.create_table(
        "collections",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collections")),
        sa.UniqueConstraint("name", name=op.f("uq_collections_name")),
    )
    op.create_table(
        "endpoints",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("models", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("max_concurrency", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("refusals", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cool_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_endpoints")),
    )
    op.create_table(
        "interactive_requests",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=True),
        sa.Column("ahead", sa.Integer(), server_default="0", nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_token_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'done', 'failed', 'dropped')",
            name=op.f("ck_interactive_requests_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interactive_requests")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(
        "ix_interactive_requests_arrivals",
        "interactive_requests",
        ["pool", "submitted_at"],
        unique=False,
    )
    op.create_index(
        "ix_interactive_requests_open",
        "interactive_requests",
        ["pool", "submitted_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued','running')"),
    )
    op.create_index(
        "ix_interactive_requests_window",
        "interactive_requests",
        ["pool", "finished_at"],
        unique=False,
    )
    op.create_table(
        "items",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column(
            "payload", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_items")),
        sa.UniqueConstraint("job_id", "key", name=op.f("uq_items_job_id_key")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column(
            "params", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("weight", sa.Float(), server_default="1", nullable=False),
        sa.Column("max_in_flight", sa.Integer(), nullable=True),
        sa.Column("may_yield", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("skipped_lines", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('loading', 'ready', 'running', 'paused', 'completed', 'failed', 'cancelled')",
            name=op.f("ck_jobs_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("key", name=op.f("uq_jobs_key")),
    )
    op.create_index(
        "ix_jobs_claimable",
        "jobs",
        ["pool", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('ready','running')"),
    )
    op.create_table(
        "results",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("chunk_no", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "output", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.CheckConstraint(
            "status IN ('done', 'unchanged', 'empty', 'failed')", name=op.f("ck_results_status")
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_results")),
    )
    op.create_index(
        "ix_results_failed",
        "results",
        ["job_id", "seq"],
        unique=False,
        postgresql_where=sa.text("status = 'failed'"),
    )
    op.create_table(
        "throttle_decisions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.Column("pressure", sa.Float(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "arguments", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column(
            "result", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_throttle_decisions")),
    )
    op.create_index(
        "ix_throttle_decisions_recent", "throttle_decisions", ["pool", "computed_at"], unique=False
    )
    op.create_table(
        "throttle_limits",
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("pressure", sa.Float(), server_default="0", nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "state", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("computed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("valid_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "tuned", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("override_value", sa.Integer(), nullable=True),
        sa.Column("override_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("override_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("pool", name=op.f("pk_throttle_limits")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "chunks",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("seqs", sa.ARRAY(sa.BigInteger()), nullable=True),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("crashes", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("leased_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("yield_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ok", sa.Integer(), server_default="0", nullable=False),
        sa.Column("unchanged", sa.Integer(), server_default="0", nullable=False),
        sa.Column("empty", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_s", sa.Float(), server_default="0", nullable=False),
        sa.Column("wasted_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('ready', 'leased', 'done', 'split', 'dead')", name=op.f("ck_chunks_state")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_chunks_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "no", name=op.f("pk_chunks")),
        postgresql_with={"fillfactor": "60"},
    )
    op.create_index(
        "ix_chunks_leased",
        "chunks",
        ["pool", "leased_at"],
        unique=False,
        postgresql_where=sa.text("state = 'leased'"),
    )
    op.create_index(
        "ix_chunks_ready",
        "chunks",
        ["job_id", "no"],
        unique=False,
        postgresql_where=sa.text("state = 'ready'"),
    )
    op.create_table(
        "embeddings",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(), nullable=False),
        sa.Column("vector", pgvector.sqlalchemy.vector.VECTOR(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column(
            "embedded_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.id"],
            name=op.f("fk_embeddings_collection_id_collections"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("collection_id", "key", name=op.f("pk_embeddings")),
    )


def downgrade() -> None:
    op.drop_table("embeddings")
    op.drop_index(
        "ix_chunks_ready", table_name="chunks", postgresql_where=sa.text("state = 'ready'")
    )
    op.drop_index(
        "ix_chunks_leased", table_name="chunks", postgresql_where=sa.text("state = 'leased'")
    )
    op.drop_table("chunks")
    op.drop_table("throttle_limits")
    op.drop_index("ix_throttle_decisions_recent", table_name="throttle_decisions")
    op.drop_table("throttle_decisions")
    op.drop_index(
        "ix_results_failed", table_name="results", postgresql_where=sa.text("status = 'failed'")
    )
    op.drop_table("results")
    op.drop_index(
        "ix_jobs_claimable",
        table_name="jobs",
        postgresql_where=sa.text("state IN ('ready','running')"),
    )
    op.drop_table("jobs")
    op.drop_table("items")
    op.drop_index("ix_interactive_requests_window", table_name="interactive_requests")
    op.drop_index(
        "ix_interactive_requests_open",
        table_name="interactive_requests",
        postgresql_where=sa.text("state IN ('queued','running')"),
    )
    op.drop_index("ix_interactive_requests_arrivals", table_name="interactive_requests")
    op.drop_table("interactive_requests")
    op.drop_table("endpoints")
    op.drop_table("collections")
    op.drop_index("ix_batch_calls_window", table_name="batch_calls")
    op.drop_table("batch_calls")
