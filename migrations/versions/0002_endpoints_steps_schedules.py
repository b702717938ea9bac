"""endpoints, steps, schedules: health, budgets, events, webhooks, pieces of long texts

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "endpoint_knees",
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("items", sa.Float(), nullable=False),
        sa.Column("tokens", sa.Float(), nullable=False),
        sa.Column(
            "state", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("endpoint", "model", name=op.f("pk_endpoint_knees")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "facts", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_recent", "events", ["at"], unique=False)
    op.create_table(
        "rate_reservations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requests", sa.Integer(), server_default="1", nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("settled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("interactive", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rate_reservations")),
    )
    op.create_index(
        "ix_rate_reservations_window", "rate_reservations", ["endpoint", "at"], unique=False
    )
    op.create_table(
        "scalers",
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column(
            "state", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("pool", name=op.f("pk_scalers")),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("missed", sa.Text(), nullable=False),
        sa.Column("missed_within_s", sa.Float(), nullable=False),
        sa.Column("overlap", sa.Text(), nullable=False),
        sa.Column("jitter_s", sa.Float(), server_default="0", nullable=False),
        sa.Column("done_by", sa.Text(), nullable=True),
        sa.Column(
            "template", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("seen_until", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("missed IN ('skip', 'latest', 'all')", name=op.f("ck_schedules_missed")),
        sa.CheckConstraint(
            "overlap IN ('skip', 'queue', 'cancel')", name=op.f("ck_schedules_overlap")
        ),
        sa.CheckConstraint("state IN ('active', 'paused')", name=op.f("ck_schedules_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("name", name=op.f("uq_schedules_name")),
    )
    op.create_table(
        "steps",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "output", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", "name", name=op.f("pk_steps")),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("message_id", sa.UUID(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret_env", sa.Text(), nullable=False),
        sa.Column(
            "body", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "not_before",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'delivered', 'given_up')",
            name=op.f("ck_webhook_deliveries_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("message_id", name=op.f("uq_webhook_deliveries_message_id")),
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["not_before"],
        unique=False,
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "schedule_runs",
        sa.Column("schedule_id", sa.Integer(), nullable=False),
        sa.Column("nominal_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("launched_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('planned', 'launched', 'skipped', 'failed')",
            name=op.f("ck_schedule_runs_state"),
        ),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["schedules.id"],
            name=op.f("fk_schedule_runs_schedule_id_schedules"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("schedule_id", "nominal_at", name=op.f("pk_schedule_runs")),
    )
    op.create_index("ix_schedule_runs_due", "schedule_runs", ["state", "due_at"], unique=False)
    op.add_column("batch_calls", sa.Column("model", sa.Text(), nullable=True))
    op.add_column("batch_calls", sa.Column("money", sa.Float(), server_default="0", nullable=False))
    op.add_column("chunks", sa.Column("money", sa.Float(), server_default="0", nullable=False))
    op.add_column("collections", sa.Column("replaces", sa.Text(), nullable=True))
    op.add_column(
        "embeddings",
        sa.Column("piece", sa.Integer(), server_default="0", autoincrement=False, nullable=False),
    )
    op.add_column("embeddings", sa.Column("begins", sa.Integer(), nullable=True))
    op.add_column("embeddings", sa.Column("ends", sa.Integer(), nullable=True))
    op.add_column("embeddings", sa.Column("source", sa.LargeBinary(), nullable=True))
    op.add_column(
        "endpoints",
        sa.Column(
            "added", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
    )
    op.add_column(
        "endpoints",
        sa.Column("draining", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column(
        "endpoints", sa.Column("breaker", sa.Text(), server_default="closed", nullable=False)
    )
    op.add_column(
        "endpoints", sa.Column("failures", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column(
        "endpoints", sa.Column("openings", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("endpoints", sa.Column("open_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("endpoints", sa.Column("probe_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("endpoints", sa.Column("failed_task", sa.Text(), nullable=True))
    op.add_column("endpoints", sa.Column("failed_model", sa.Text(), nullable=True))
    op.add_column("endpoints", sa.Column("pace", sa.Float(), nullable=True))
    op.add_column("endpoints", sa.Column("spent_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "endpoints",
        sa.Column("slow", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column("interactive_requests", sa.Column("role", sa.Text(), nullable=True))
    op.add_column("interactive_requests", sa.Column("answered_model", sa.Text(), nullable=True))
    op.add_column(
        "interactive_requests", sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column(
        "interactive_requests",
        sa.Column(
            "cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
    )
    op.add_column("interactive_requests", sa.Column("rides_on", sa.UUID(), nullable=True))
    op.add_column("interactive_requests", sa.Column("money", sa.Float(), nullable=True))
    op.add_column("jobs", sa.Column("tenant", sa.Text(), server_default="default", nullable=False))
    op.add_column(
        "jobs", sa.Column("after", sa.ARRAY(sa.BigInteger()), server_default="{}", nullable=False)
    )
    op.add_column(
        "jobs",
        sa.Column(
            "window", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
    )
    op.add_column("jobs", sa.Column("failover", sa.Text(), server_default="wait", nullable=False))
    op.add_column("jobs", sa.Column("budget", sa.Float(), nullable=True))
    op.add_column("jobs", sa.Column("source", sa.LargeBinary(), nullable=True))
    op.add_column(
        "jobs",
        sa.Column("delete_missing", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column("jobs", sa.Column("deleted", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column(
        "jobs",
        sa.Column(
            "webhook", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
    )
    op.add_column("jobs", sa.Column("served_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("results", sa.Column("model", sa.Text(), nullable=True))

    op.create_check_constraint(
        op.f("ck_jobs_failover"), "jobs", "failover IN ('wait', 'backup', 'degraded')"
    )
    op.create_check_constraint(
        op.f("ck_endpoints_breaker"), "endpoints", "breaker IN ('closed', 'open', 'half_open')"
    )
    op.drop_constraint(op.f("pk_embeddings"), "embeddings", type_="primary")
    op.create_primary_key(op.f("pk_embeddings"), "embeddings", ["collection_id", "key", "piece"])


def downgrade() -> None:

    # One vector an item again: the first piece stays.
    op.execute("DELETE FROM embeddings WHERE piece > 0")
    op.drop_constraint(op.f("pk_embeddings"), "embeddings", type_="primary")
    op.create_primary_key(op.f("pk_embeddings"), "embeddings", ["collection_id", "key"])
    op.drop_constraint(op.f("ck_endpoints_breaker"), "endpoints", type_="check")
    op.drop_constraint(op.f("ck_jobs_failover"), "jobs", type_="check")

    op.drop_column("results", "model")
    op.drop_column("jobs", "pruned_at")
    op.drop_column("jobs", "served_at")
    op.drop_column("jobs", "webhook")
    op.drop_column("jobs", "deleted")
    op.drop_column("jobs", "delete_missing")
    op.drop_column("jobs", "source")
    op.drop_column("jobs", "budget")
    op.drop_column("jobs", "failover")
    op.drop_column("jobs", "window")
    op.drop_column("jobs", "after")
    op.drop_column("jobs", "tenant")
    op.drop_column("interactive_requests", "money")
    op.drop_column("interactive_requests", "rides_on")
    op.drop_column("interactive_requests", "cancel_requested")
    op.drop_column("interactive_requests", "deadline_at")
    op.drop_column("interactive_requests", "answered_model")
    op.drop_column("interactive_requests", "role")
    op.drop_column("endpoints", "slow")
    op.drop_column("endpoints", "spent_until")
    op.drop_column("endpoints", "pace")
    op.drop_column("endpoints", "failed_model")
    op.drop_column("endpoints", "failed_task")
    op.drop_column("endpoints", "probe_until")
    op.drop_column("endpoints", "open_until")
    op.drop_column("endpoints", "openings")
    op.drop_column("endpoints", "failures")
    op.drop_column("endpoints", "breaker")
    op.drop_column("endpoints", "draining")
    op.drop_column("endpoints", "added")
    op.drop_column("embeddings", "source")
    op.drop_column("embeddings", "ends")
    op.drop_column("embeddings", "begins")
    op.drop_column("embeddings", "piece")
    op.drop_column("collections", "replaces")
    op.drop_column("chunks", "money")
    op.drop_column("batch_calls", "money")
    op.drop_column("batch_calls", "model")
    op.drop_index("ix_schedule_runs_due", table_name="schedule_runs")
    op.drop_table("schedule_runs")
    op.drop_index(
        "ix_webhook_deliveries_due",
        table_name="webhook_deliveries",
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.drop_table("webhook_deliveries")
    op.drop_table("steps")
    op.drop_table("schedules")
    op.drop_table("scalers")
    op.drop_index("ix_rate_reservations_window", table_name="rate_reservations")
    op.drop_table("rate_reservations")
    op.drop_index("ix_events_recent", table_name="events")
    op.drop_table("events")
    op.drop_table("endpoint_knees")
