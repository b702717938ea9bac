"""An environment without Giveway's variables, and a folder to write giveway.toml in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import ConfigError
from app.settings import load

Faults = Callable[[str], list[str]]


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("GIVEWAY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def faults() -> Faults:
    """The sentences about a giveway.toml with this text; none where it is right."""

    def of(text: str) -> list[str]:
        Path("giveway.toml").write_text(text, encoding="utf-8")
        try:
            load()
        except ConfigError as error:
            return str(error).splitlines()
        return []

    return of
