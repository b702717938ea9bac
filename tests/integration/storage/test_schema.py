"""Migrations reach the tables, and take them away again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import inspect

from app.storage import schema
from app.storage.database import Database
from app.storage.tables import metadata


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def test_the_migrated_schema_is_the_tables_exactly(database: Database) -> None:
    schema.upgrade(database)
    schema.upgrade(database)

    assert schema.current(database) == schema.head()
    assert schema.differences(database) == []


def test_a_schema_made_from_the_tables_equals_a_migrated_one(
    database: Database,
) -> None:
    with database.transaction() as tx:
        metadata.create_all(tx)
    made = described(database)
    with database.transaction() as tx:
        metadata.drop_all(tx)
    schema.upgrade(database)
    assert described(database) == made


def test_down_leaves_nothing_of_ours(database: Database) -> None:
    schema.upgrade(database)
    schema.downgrade(database, "base")
    with database.transaction() as tx:
        assert inspect(tx).get_table_names() == ["alembic_version"]
    schema.upgrade(database)
    assert schema.differences(database) == []


def described(database: Database) -> dict[str, object]:
    """Columns, indexes, constraints and storage options, as Postgres tells them."""
    with database.transaction() as tx:
        rows = tx.exec_driver_sql(
            """
            SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable
                   || ' ' || coalesce(column_default, '') || ' ' || is_identity
            FROM information_schema.columns WHERE table_schema = 'public'
              AND table_name <> 'alembic_version'
            UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes
            WHERE schemaname = 'public' AND tablename <> 'alembic_version'
            UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text
              <> 'alembic_version'
            UNION ALL SELECT 'options', relname, reloptions::text FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
              AND relname <> 'alembic_version'
            """
        ).all()
    return {f"{what} {name}": says for what, name, says in rows}
