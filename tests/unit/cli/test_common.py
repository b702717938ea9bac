"""Durations, which settings a command takes, and which model it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.common import settings_for
from app.cli.parts.kind_commands import collection_of
from app.cli.parts.models import chat_model, embedding_model, embeds
from app.domain.moments import seconds
from app.errors import UnknownName, UsageError
from app.settings import Settings
from app.wiring import Wiring


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("250ms", 0.25), ("15m", 900), ("1.5 h", 5400), ("2d", 172_800)],
)
def test_a_duration_is_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "-1s", "1 week", "1h30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no duration"):
        seconds(text)


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A running stack that was started with stack.toml."""
    Path("stack.toml").write_text('[[pools]]\nname = "of-the-stack"\n')
    environment = {
        "GIVEWAY_CONFIG": str(Path("stack.toml").resolve()),
        "GIVEWAY_DATABASE__URL": "postgresql://stack/db",
    }
    monkeypatch.setattr("app.local.state.environment_of", lambda _: environment)
    return Path(".giveway")


def test_the_running_stack_lends_its_config_and_its_database(stack: Path) -> None:
    Path("giveway.toml").write_text('[[pools]]\nname = "of-this-folder"\n')
    found = settings_for(None, stack)

    assert [pool.name for pool in found.pools] == ["of-the-stack"]
    assert found.database.url is not None
    assert found.database.url.get_secret_value() == "postgresql://stack/db"


def test_a_config_that_is_named_wins_over_that_of_the_stack(stack: Path) -> None:
    Path("mine.toml").write_text('[[pools]]\nname = "mine"\n')

    assert [pool.name for pool in settings_for(Path("mine.toml"), stack).pools] == ["mine"]


def _wiring(*models: str) -> Wiring:
    endpoint = {"name": "e", "base_url": "http://127.0.0.1:1/v1", "models": models}
    return Wiring(Settings(endpoints=[endpoint] if models else []))  # type: ignore[arg-type]


def test_without_a_name_the_first_fitting_model_is_meant() -> None:
    pools = _wiring("fake-embed", "fake-chat", "other-chat").pools

    assert embedding_model(pools, None) == "fake-embed"
    assert chat_model(pools, None) == "fake-chat"
    assert chat_model(pools, "other-chat") == "other-chat"


def test_the_only_model_is_meant_whatever_its_name() -> None:
    assert embedding_model(_wiring("text-thing").pools, None) == "text-thing"


def test_a_model_that_cannot_be_told_is_asked_for() -> None:
    with pytest.raises(UsageError, match="name a model with --model: one, two"):
        embedding_model(_wiring("one", "two").pools, None)
    with pytest.raises(UsageError, match="no endpoint is declared"):
        chat_model(_wiring().pools, None)


def test_a_model_that_nobody_serves_lists_those_served() -> None:
    with pytest.raises(UnknownName, match="'gpt'; known: one, two"):
        chat_model(_wiring("one", "two").pools, "gpt")


@pytest.mark.parametrize(
    "name", ["text-embedding-3-small", "BAAI/bge-m3", "intfloat/e5-base", "gte"]
)
def test_embedding_models_are_known_by_their_names(name: str) -> None:
    assert embeds(name)


@pytest.mark.parametrize("name", ["gpt-4o", "llama-3.1-8b", "degte", "mistral"])
def test_other_models_are_not_taken_for_them(name: str) -> None:
    assert not embeds(name)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/docs.jsonl", "docs"),
        ("My docs (2).csv.gz", "My-docs-2"),
        ("ünï.csv", "n"),
        ("x_y.tsv", "x_y"),
    ],
)
def test_a_collection_is_named_after_the_file(file: str, name: str) -> None:
    assert collection_of(file) == name


@pytest.mark.parametrize("file", ["-", "漢字.csv", ".jsonl"])
def test_a_file_without_a_name_for_one_asks_for_it(file: str) -> None:
    with pytest.raises(UsageError, match="--collection"):
        collection_of(file)
