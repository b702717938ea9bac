"""README and docs: links lead somewhere, commands exist with their flags, decisions are listed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from app.cli.main import build

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = ROOT / "docs" / "decisions"
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.S | re.M)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Those that headings have on the pages of a repository."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path):
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_decisions_are_numbered_without_a_gap_and_all_in_the_index():
    pages = sorted(DECISIONS.glob("[!R]*.md"))
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")

    for number, page in enumerate(pages, 1):
        title = page.read_text(encoding="utf-8").splitlines()[0]
        assert title.startswith(f"# {number:04} "), page.name
        assert f"| {number:04} | [{title[7:]}]({page.name}) |" in index


def commands() -> Iterator[tuple[Path, str]]:
    """Lines of code that call giveway, and the page that shows them."""
    for page in PAGES:
        for block in _FENCED.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                if found := re.match(r"(?:\$ |.*\| )?(giveway .*)", line):
                    yield page, found[1]


def test_every_command_that_is_shown_exists_with_its_flags():
    root: Any = typer.main.get_command(build())
    shown = [(page, line) for page, line in commands() if "submit translate" not in line]

    assert len(shown) > 100
    for page, line in shown:
        said = takewhile(lambda word: word != "|", shlex.split(line, comments=True)[1:])
        words = [word for word in said if word != "…"]
        command, context, name = root, None, "giveway"
        try:
            while True:
                context = command.make_context(name, words, parent=context)
                if not isinstance(command, TyperGroup):
                    break
                name, command, words = command.resolve_command(
                    context, [*context._protected_args, *context.args]
                )
        except typer.Exit:
            pass
        except Exception as error:
            pytest.fail(f"{page.relative_to(ROOT)}: {line}: {error or type(error).__name__}")
