"""begun answers: what a call had given when it was closed, and which jobs go on from it

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column("resume_streamed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.create_table(
        "begun_answers",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("asked", sa.LargeBinary(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_begun_answers")),
    )


def downgrade() -> None:
    op.drop_table("begun_answers")
    op.drop_column("jobs", "resume_streamed")
