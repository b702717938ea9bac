"""The schema's version: upgrade, downgrade, and whether it is what the code expects."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

import migrations
from app.storage.database import Database
from app.storage.tables import metadata

_UPGRADE_LOCK = 0x67697665  # "give": two upgrades at once wait for each other


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest revision that this code knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def knows(revision: str | None) -> bool:
    """Whether this code has that revision: a newer version's it has not."""
    scripts = ScriptDirectory.from_config(_config())
    return revision in {script.revision for script in scripts.walk_revisions()}


def current(database: Database) -> str | None:
    """The revision the database is at; None for an empty one."""
    with database.transaction() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the schema to `revision`; nothing happens when it is there."""
    with database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _UPGRADE_LOCK})
        command.upgrade(_config(connection), revision)


def downgrade(database: Database, revision: str) -> None:
    """Take the schema back to `revision`; "base" removes it."""
    with database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _UPGRADE_LOCK})
        command.downgrade(_config(connection), revision)


def differences(database: Database) -> list[str]:
    """How the schema differs from the tables in the code; empty when they agree."""
    with database.transaction() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(difference) for difference in compare_metadata(context, metadata)]
