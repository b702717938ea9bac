"""Secrets never reach a log."""

from __future__ import annotations

import logging

import pytest

from app import logs


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("redis://:hunter2@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql://me:hun/ter2@host/db", "postgresql://me:***@host/db"),
        ("amqp://u:hun@ter@2@host//, a@b", "amqp://u:***@host//, a@b"),
        ("postgresql://me:hun@ter2@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@corp:hun@t@er2@host/db", "postgresql://me@corp:***@host/db"),
        ("redis://:a@b@h/0 and amqp://u:c@d@k//", "redis://:***@h/0 and amqp://u:***@k//"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("key sk-proj-1234567890abcdef is wrong", "key sk-*** is wrong"),
        ("http://host/v1 is fine", "http://host/v1 is fine"),
    ],
)
def test_what_looks_like_a_secret_is_masked(said: str, shown: str) -> None:
    assert logs.masked(said) == shown


def test_arguments_of_a_record_are_masked_too(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        logs.configure("INFO")
        logging.getLogger("giveway.test").info("to %s", "amqp://u:hunter2@host//")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert "amqp://u:***@host//" in capsys.readouterr().err
