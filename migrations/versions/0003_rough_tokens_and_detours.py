"""rough tokens and detours: which tokens were guessed, which calls failed before another endpoint
was asked

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("batch_calls", "interactive_requests"):
        op.add_column(
            table,
            sa.Column("rough", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        )
    op.create_table(
        "detours",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_detours")),
    )
    op.create_index("ix_detours_window", "detours", ["pool", "ended_at"])


def downgrade() -> None:
    op.drop_index("ix_detours_window", table_name="detours")
    op.drop_table("detours")
    for table in ("interactive_requests", "batch_calls"):
        op.drop_column(table, "rough")
