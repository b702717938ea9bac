"""docs/reference: every setting and every command, as they are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
WRITER = runpy.run_path(str(REFERENCE / "generate.py"))


@pytest.mark.parametrize("page", ["settings", "commands", "waiting"])
def test_the_page_is_what_the_code_says(page: str):
    written = (REFERENCE / f"{page}.md").read_text(encoding="utf-8")

    assert written == WRITER[f"{page}_page"](), "run: make reference"


def test_no_setting_is_left_without_a_meaning():
    empty = [line for line in WRITER["settings_page"]().splitlines() if line.endswith("|  |")]

    assert empty == []
