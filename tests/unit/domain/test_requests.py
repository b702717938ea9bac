"""What a request may say at the door, and in which order requests get places."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.requests import NewRequest, before, checked_priority
from app.errors import BadParams

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize("priority", [-1, 10, 3.5, "7", None, True])
def test_a_priority_outside_its_range_is_refused_with_the_range(priority: object) -> None:
    with pytest.raises(BadParams, match="from 0 to 9"):
        checked_priority(priority)


def test_the_range_itself_is_taken() -> None:
    assert [checked_priority(n) for n in range(10)] == list(range(10))


def test_higher_first_and_then_older() -> None:
    one = NewRequest(uuid.uuid4(), "main", "chat", "m", NOON)
    later = NOON + timedelta(seconds=1)
    right = [
        replace(one, priority=9, submitted_at=later),
        replace(one, priority=5),
        replace(one, priority=5, submitted_at=later),
        replace(one, priority=0),
    ]
    mixed = random.Random(1).sample(right, len(right))
    assert sorted(mixed, key=before) == right
