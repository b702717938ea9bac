"""What is shown of a secret."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from app.settings.secrets import shown


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("postgresql://u:p%40ss@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("redis://:p@h/1", "redis://:***@h/1"),
        ("redis://token@h", "redis://***@h"),
        ("postgresql://h/d?password=p", "postgresql://h/d?***"),
        ("amqp://u:p@[::1]:5672//", "amqp://u:***@[::1]:5672//"),
        ("http://h:port/", "***"),
        ("postgresql://u:p@ss@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:12/ss@h:5432/d", "***"),
        ("postgresql://u:12?ss@h:5432/d", "***"),
        ("postgresql://u:12#ss@h:5432/d", "***"),
        ("hunter2", "***"),
        ("", "***"),
    ],
)
def test_only_the_address_is_shown(secret: str, expected: str) -> None:
    assert shown(SecretStr(secret)) == expected
