"""What all tables share: one metadata with stable constraint names, and column shorthands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import CheckConstraint, Column, DateTime, MetaData, func
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def moment(name: str, *, required: bool = False, stamped: bool = False) -> Column[Any]:
    """An aware time. `stamped`: the database's own clock fills it."""
    default = func.now() if stamped else None
    return Column(
        name, DateTime(timezone=True), nullable=not (required or stamped), server_default=default
    )


def document(name: str, *, required: bool = True) -> Column[Any]:
    """A JSON value, stored as jsonb."""
    return Column(name, JSONB(none_as_null=True), nullable=not required)


def one_of(name: str, column: str, values: Iterable[str]) -> CheckConstraint:
    """A check that `column` holds one of `values`."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=name)
