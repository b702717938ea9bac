"""The demo's corpus, settings, figures and report."""

from __future__ import annotations

import tomllib
from pathlib import Path

import orjson
import pytest

from app.local.demo import config
from app.local.demo.corpus import docstrings, write_corpus
from app.local.demo.measured import (
    ALONE,
    THROTTLED,
    UNTHROTTLED,
    Answer,
    Leg,
    Measured,
    rolling_p95,
)
from app.local.demo.picture import draw
from app.local.demo.report import report_text
from app.settings import Settings

SOURCE = '''
"""A module that is documented well enough."""

class Shelf:
    """A place where books are kept in order."""

    def add(self, book):
        """Put a book
        where it belongs.
        """

    @property
    def size(self):
        """How many books there are now."""

    @size.setter
    def size(self, value):
        """Make room for so many books."""

def short():
    """Too short."""
'''


def a_leg(name: str, ms: list[float], total: int = 0, **more: float) -> Leg:
    answers = tuple(Answer(float(at), value) for at, value in enumerate(ms))
    backfill_s = 10.0 if total else 0.0
    facts = {"done": total, "backfill_s": backfill_s} | more
    return Leg(name, 0.0, 10.0, answers, total=total, **facts)  # type: ignore[arg-type]


def a_run(**legs: Leg) -> Measured:
    made = {
        ALONE: a_leg(ALONE, [200.0] * 20),
        UNTHROTTLED: a_leg(UNTHROTTLED, [1000.0] * 20, 100),
        THROTTLED: a_leg(THROTTLED, [400.0] * 20, 50),
    } | legs
    hits = (("how", (("gzip.open", 0.7, "Open a compressed file."),)),)
    return Measured(500.0, tuple(made.values()), hits)


def test_the_corpus_has_every_docstring_by_its_qualified_name(tmp_path: Path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shelf.py").write_text(SOURCE)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "seen.py").write_text('"""Tests are not documentation."""')
    (tmp_path / "broken.py").write_text("def (")

    assert list(docstrings(tmp_path)) == [
        ("lib.shelf", "A module that is documented well enough."),
        ("lib.shelf.Shelf", "A place where books are kept in order."),
        ("lib.shelf.Shelf.add", "Put a book where it belongs."),
        ("lib.shelf.Shelf.size", "How many books there are now."),
        ("lib.shelf.Shelf.size#2", "Make room for so many books."),
    ]


def test_the_standard_library_gives_thousands_of_texts_each_named_once(tmp_path: Path):
    path = tmp_path / "corpus.jsonl"
    count = write_corpus(path, every=2)
    ids = [orjson.loads(line)["id"] for line in path.read_bytes().splitlines()]

    assert count == len(ids) == len(set(ids))
    assert count > 2000


def test_its_settings_are_valid_and_both_pools_reach_one_server():
    settings = Settings(**tomllib.loads(config.config_toml(8123)))

    assert {endpoint.base_url for endpoint in settings.endpoints} == {"http://127.0.0.1:8123/v1"}
    assert [pool.ceiling for pool in settings.pools] == [config.PLACES - 1] * 2


def test_a_good_run_is_sound_and_says_by_how_much():
    document = a_run().document()

    assert document["sound"]
    assert (document["p95_ratio"], document["items_per_s_ratio"]) == (2.5, 0.5)


@pytest.mark.parametrize(
    ("leg", "word"),
    [
        (a_leg(THROTTLED, [1100.0] * 20, 50), "no better"),
        (a_leg(THROTTLED, [400.0] * 20, 50, done=49), "49 of 50 items"),
        (a_leg(THROTTLED, [400.0] * 20, 50, failed_items=1), "1 failed"),
    ],
)
def test_a_run_that_proves_nothing_says_why(leg: Leg, word: str):
    faults = a_run(**{THROTTLED: leg}).faults()

    assert any(word in fault for fault in faults)
    assert "not sound" in report_text(a_run(**{THROTTLED: leg}))


def test_a_failed_request_is_late_and_makes_the_run_unsound():
    leg = Leg(ALONE, 0.0, 10.0, (Answer(0.0, 100.0), Answer(1.0, None)))

    assert leg.share_on_target(500.0) == 0.5
    assert any("1 of 2" in fault for fault in a_run(**{ALONE: leg}).faults())


def test_the_rolling_p95_is_of_the_requests_of_its_window():
    answers = [Answer(at / 10, 1000.0 if at < 10 else 100.0) for at in range(50)]
    found = dict(rolling_p95(answers, window_s=1.0, step_s=1.0))

    assert (found[1.0], found[4.0]) == (1000.0, 100.0)


def test_the_report_names_each_leg_and_each_hit():
    text = report_text(a_run())

    assert [" ".join(line.split()) for line in text.splitlines()][3] == (
        "people and a backfill, Giveway 400 ms 400 ms 400 ms 100% 5"
    )
    assert "0.70  gzip.open: Open a compressed file." in text


def test_the_picture_is_an_svg_with_words_that_can_be_read(tmp_path: Path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.svg"

    assert draw(a_run(), path)
    assert "people wait (ms)" in path.read_text()
