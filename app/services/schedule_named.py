"""A schedule by its name, or the error that says there is none."""

from __future__ import annotations

from sqlalchemy import Connection

from app.domain.schedules import Schedule
from app.errors import NotFound
from app.storage.schedule_store import ScheduleStore


def schedule_named(tx: Connection, name: str) -> Schedule:
    """The schedule called `name`. NotFound: there is none."""
    found = ScheduleStore(tx).find(name)
    if found is None:
        raise NotFound(f"no schedule {name!r}; see `giveway schedules list`")
    return found
