"""Kinds of one's own: found by module or entry point, refused with a clear word."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import ConfigError, UnknownName
from app.kinds import registry
from tests.docs_kind import source

Write = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_declared", {})
    registry.kinds.cache_clear()
    yield
    registry.kinds.cache_clear()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module that can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)

    return write


def test_a_module_of_the_settings_is_a_kind(module: Write) -> None:
    module("own_translate", source())
    registry.declare(["own_translate"])
    assert registry.kind("translate").name == "translate"
    assert {"embed", "evaluate", "generate"} < set(registry.kinds())


def test_without_it_the_kind_is_not_known() -> None:
    with pytest.raises(UnknownName, match="no job kind 'translate'; known: embed, evaluate"):
        registry.kind("translate")


def test_an_installed_package_offers_kinds_by_entry_point(
    module: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    module("installed_translate", source())
    entry = importlib.metadata.EntryPoint("translate", "installed_translate", registry.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    assert registry.kind("translate").name == "translate"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("not_there", None, "'not_there' of .kinds. modules is not there; install it, or put"),
        ("lacks_kind", "x = 1", "'lacks_kind' of .kinds. modules has no KIND"),
        ("no_kind", "KIND = 1", "the KIND of .* is no kind: it needs name, params"),
        ("raises", "1 / 0", "'raises' .* cannot be loaded: ZeroDivisionError"),
        ("lacks_other", "import nonsense_x", "cannot be loaded: ModuleNotFoundError: .*nonsense_x"),
        ("second_embed", "from app.kinds.embed import Embed\nKIND = Embed()", "called 'embed'"),
    ],
)
def test_what_is_no_kind_is_an_error_that_says_so(
    module: Write, name: str, text: str | None, said: str
) -> None:
    if text is not None:
        module(name, text)
    registry.declare([name])
    with pytest.raises(ConfigError, match=said):
        registry.kinds()


def test_the_page_shows_a_kind_of_under_fifty_lines() -> None:
    assert len(source().splitlines()) < 50
