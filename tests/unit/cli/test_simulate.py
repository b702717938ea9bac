"""`giveway simulate`: one JSON document, readable tables, wrong names refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.cli import simulate as command
from app.errors import ConfigError, MissingPart, UnknownName, UsageError
from app.simulation import oracle, workloads

FACE = {
    *("policy", "workload", "seed", "on_target", "on_target_without_batch"),
    *("work_share_of_oracle", "work_share_of_dedicated", "settle_s", "limit_swing"),
    *("p95_ms", "p95_ms_without_batch"),
}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command on one short workload, with a short search for the oracle."""
    short = replace(workloads.WORKLOADS["poisson1"], duration_s=120.0)
    monkeypatch.setattr(workloads, "WORKLOADS", {"poisson1": short})
    find = oracle.find
    monkeypatch.setattr(oracle, "find", lambda *args: find(*args, refinements=0))
    app = typer.Typer()
    command.register(app)
    return app


def run(app: typer.Typer, *args: str) -> str:
    result = CliRunner().invoke(app, ["simulate", *args], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_has_the_face_that_others_rely_on(app: typer.Typer) -> None:
    text = run(app, "--policies", "budget,static:8", "--workloads", "poisson1", "--json")
    document = json.loads(text)

    assert [r["policy"] for r in document["runs"]] == ["budget", "static:8"]
    for one in document["runs"]:
        assert set(one) >= FACE
        assert 0 <= one["on_target"] <= 1
        assert 0 <= one["work_share_of_dedicated"] <= 1
        assert len(one["signs"]) == 3


def test_a_table_a_picture_and_three_signs(app: typer.Typer, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    chart, frontier = tmp_path / "a.svg", tmp_path / "b.png"
    text = run(
        app, "--workloads", "all", "--policies", "budget", "--chart", str(chart),
        "--frontier", str(frontier),
    )  # fmt: skip

    assert "poisson1" in text
    assert text.count("✓") == 3
    assert chart.read_text().startswith("<?xml")
    assert frontier.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        (["--policies", "budgte"], UnknownName, "no policy 'budgte'; known: aimd, budget"),
        (["--policies", "budget:3"], ConfigError, "takes no number"),
        (["--policies", "static:x"], ConfigError, "'x' is no number"),
        (["--workloads", "rush"], UnknownName, "no workload 'rush'; known: poisson1"),
        (["--workloads", " , "], ConfigError, "--workloads names nothing"),
        (["--workloads", "poisson1", "--fault", "fire"], UnknownName, "no fault 'fire'"),
        (["--workloads", "poisson1", "--chart", "a.jpg"], UsageError, "a .png or .svg"),
    ],
)
def test_wrong_words_are_refused_before_anything_runs(
    app: typer.Typer, args: list[str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words.replace(".", r"\.")):
        CliRunner().invoke(app, ["simulate", *args], catch_exceptions=False)


def test_a_chart_without_matplotlib_says_what_to_install(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPart, match=r"pip install 'giveway\[charts\]'"):
        CliRunner().invoke(
            app, ["simulate", "--workloads", "poisson1", "--chart", "a.png"], catch_exceptions=False
        )


def test_the_lesson_is_quick_and_readable(app: typer.Typer) -> None:
    text = run(app, "lesson")
    document = json.loads(run(app, "lesson", "--json"))

    assert "people at 300 ms, without the throttle" in text
    assert len(document["places"]) == 4
    assert len(document["nodes"]["served"]) == 10
