"""Schedules: when a job is launched, and what happens to launches that were missed or collide."""

from __future__ import annotations

from enum import StrEnum


class ScheduleState(StrEnum):
    """ACTIVE: it fires. PAUSED: its times pass by."""

    ACTIVE = "active"
    PAUSED = "paused"


class Missed(StrEnum):
    """What becomes of runs whose time passed while nobody ticked."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a run that is due while an earlier one's job is still open."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class RunState(StrEnum):
    """PLANNED: it waits for its time, or for an earlier run. LAUNCHED: its job is there."""

    PLANNED = "planned"
    LAUNCHED = "launched"
    SKIPPED = "skipped"
    FAILED = "failed"
