"""An interactive request: somebody waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class RequestState(StrEnum):
    """queued: waits for a place · running: at the endpoint · the others are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request as it arrives. `submitted_at` is when the person asked."""

    id: UUID
    pool: str
    task_type: str
    model: str
    submitted_at: datetime
    user_id: str | None = None
    priority: int = 0
    max_tokens: int | None = None
