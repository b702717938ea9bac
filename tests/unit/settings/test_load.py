"""Precedence of settings, and that loading leaves the environment alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.settings import load


def a_file(text: str, name: str = "giveway.toml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_environment_wins_over_the_file_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    a_file("[throttle]\ntick_s = 2\nwindow_s = 20\n")
    monkeypatch.setenv("GIVEWAY_THROTTLE__TICK_S", "3")

    throttle = load().throttle

    assert (throttle.tick_s, throttle.window_s) == (3, 20)


def test_the_environment_wins_over_what_a_running_stack_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIVEWAY_LOG_LEVEL", "DEBUG")
    beneath = {"GIVEWAY_LOG_LEVEL": "ERROR", "GIVEWAY_FLOWER__PORT": "5555"}

    settings = load(beneath=beneath)

    assert (settings.log_level, settings.flower.port) == ("DEBUG", 5555)
    assert "GIVEWAY_FLOWER__PORT" not in os.environ


def test_the_named_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEWAY_CONFIG", str(a_file('log_level = "ERROR"', "other.toml")))

    assert load().log_level == "ERROR"


def test_a_file_with_a_byte_order_mark_and_crlf_is_read() -> None:
    Path("giveway.toml").write_bytes(b'\xef\xbb\xbflog_level = "ERROR"\r\n[throttle]\r\n')

    assert load().log_level == "ERROR"
