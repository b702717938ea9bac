"""Alembic's entry: the connection comes from `app.storage.schema` or from the settings."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from app.storage.tables import metadata


def run(connection: Connection) -> None:
    """Run the asked-for migrations on `connection`, in one transaction."""
    context.configure(connection=connection, target_metadata=metadata, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    from app.wiring import Wiring

    with Wiring.from_environment().database.transaction() as connection:
        run(connection)
