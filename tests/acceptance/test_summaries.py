"""A long document, its worker killed twice: what was summarised is not summarised again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.acceptance.stack import Stack
from tests.served import Served, serving
from tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]

PAGES, WORDS_A_PAGE = 300, 300
KILLS = 2


@pytest.fixture
def engine() -> Iterator[Served]:
    """A hundred times as fast as the real thing, so that a document takes seconds."""
    with serving("--places", "8", "--ledger", "--speed", "100") as served:
        yield served


def book() -> str:
    page = " ".join(f"word{n % 97}" for n in range(WORDS_A_PAGE - 4))
    return "\n\n".join(f"Page {n} begins. {page}." for n in range(PAGES))


def stored(one: Stack) -> int:
    with psycopg.connect(one.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM steps").fetchone()
    assert row is not None
    return int(row[0])


def submit(one: Stack, source: Path, key: str) -> None:
    done = one.run(
        *("submit", "summarize", str(source), "--id-field", "id", "--text-field", "text"),
        *("--model", "fake-chat", "--key", key, "--words", "40", "--part-tokens", "2000"),
    )
    assert done.returncode == 0, done.stderr


def chats(engine: Served) -> int:
    """Requests for chats that came in, however they ended."""
    return sum(o["count"] for o in engine.ledger()["outcomes"] if o["path"] == "chat")


def summary_of(one: Stack, key: str, folder: Path) -> dict[str, object]:
    job = one.wait_completed(key, within_s=120)
    assert (job["done"], job["failed"]) == (1, 0)
    out = folder / f"{key}.jsonl"
    one.run("results", key, "--output", str(out))
    found: dict[str, object] = json.loads(out.read_text())["output"]
    return found


def test_a_book_is_summarised_although_its_worker_is_killed_twice(
    engine: Served, prepared: Path, tmp_path: Path
) -> None:
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(TemporaryDirectory(prefix="giveway-")))
        one = Stack(folder, engine, prepared)
        cleanup.callback(one.down)
        one.up()
        source = tmp_path / "books.jsonl"
        source.write_text(json.dumps({"id": "book", "text": book()}) + "\n")

        submit(one, source, "calm")
        undisturbed = summary_of(one, "calm", tmp_path)
        needed = chats(engine)
        assert needed > 60

        submit(one, source, "killed")
        for kill in range(1, KILLS + 1):
            until(lambda enough=20 * kill: stored(one) >= enough, 60, "some steps")
            one.kill("batch")
        assert summary_of(one, "killed", tmp_path) == undisturbed
        # What was in flight when its worker died is asked again, and nothing else is.
        assert needed <= chats(engine) - needed <= needed + KILLS
        assert stored(one) == 0
