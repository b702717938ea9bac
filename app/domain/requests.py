"""An interactive request: somebody waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from app.errors import BadParams

LEAST_PRIORITY, MOST_PRIORITY = 0, 9


class RequestState(StrEnum):
    """queued: waits for a place · running: at the endpoint · the others are final.

    dropped: it was never sent, because its deadline passed or its caller is gone.
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request as it arrives. `submitted_at` is when the person asked.

    `priority` is 0 to 9: the higher comes first, among equals the older. After `deadline_at` the
    answer is not wanted any more; None: `[interactive] deadline_s` alone holds.
    """

    id: UUID
    pool: str
    task_type: str
    model: str
    submitted_at: datetime
    user_id: str | None = None
    priority: int = 0
    max_tokens: int | None = None
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Unbegun:
    """A request whose message was thrown away at `ended_at`, before a worker began it."""

    request: NewRequest
    ended_at: datetime
    code: str


def checked_priority(priority: object) -> int:
    """`priority` as a whole number from 0 to 9. BadParams: it is none."""
    is_number = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_number or not LEAST_PRIORITY <= priority <= MOST_PRIORITY:  # type: ignore[operator]
        raise BadParams(
            f"priority must be a whole number from {LEAST_PRIORITY} to {MOST_PRIORITY} "
            f"(the higher comes first), not {priority!r}"
        )
    return priority  # type: ignore[return-value]


def before(one: NewRequest) -> tuple[int, datetime, UUID]:
    """The order in which requests get places: by priority, then by age."""
    return (-one.priority, one.submitted_at, one.id)
