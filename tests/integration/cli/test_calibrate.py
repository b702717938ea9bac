"""`giveway calibrate` on a simulated endpoint: figures, a change that is shown, a file that keeps
its comments."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.cli.parts.calibration_file import Change, change
from app.domain.calibration.proposal import Proposal
from app.domain.inference import ChatRequest, Message
from app.domain.routing import EndpointSpec
from app.errors import Abandoned
from app.inference.cancel import Cancel
from app.inference.wire import Wire
from app.settings import Settings
from tests.commands import Ran, giveway
from tests.served import Served, serving
from tests.waiting import until

QUICK = ("--max-tokens", "16", "--prompt-words", "24", "--seconds-per-step", "0.5")
FILE = """\
# One card.
[[pools]]
name = "main"
total = 8            # places of the card
target_p95_ms = 500  # a guess

[[endpoints]]
name = "gpu-a"
base_url = "{url}"
models = ["fake-chat", "fake-embed"]
max_concurrency = 4
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving("--places", "4", "--speed", "2") as served:
        yield served


@pytest.fixture
def file(tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file in the working folder, for the endpoint without faults."""
    server.calm()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "giveway.toml"
    path.write_text(FILE.format(url=server.url))
    return path


def calibrate(*flags: str) -> Ran:
    return giveway("calibrate", *QUICK, *flags)


def test_it_writes_what_it_proposes_and_keeps_the_comments(file: Path) -> None:
    before = file.read_text()
    ran = calibrate("--max-rps", "40", "--write", "--json")
    assert ran.code == 0, ran.err

    found, after = ran.document, file.read_text()
    written = tomllib.loads(after)
    assert found["written"]
    assert {**written["pools"][0], **found["proposal"]["pool"]} == written["pools"][0]
    assert {**written["endpoints"][0], **found["proposal"]["endpoint"]} == written["endpoints"][0]
    assert written["pools"][0]["total"] == 4
    assert "# One card.\n" in after
    assert "# places of the card" in after
    assert "-total = 8            # places of the card\n" in found["change"]
    assert before != after
    assert giveway("config", "check").code == 0
    assert "this may take" in ran.err
    assert [level["in_flight"] for level in found["concurrency"]] == [1, 2, 4]
    assert found["server_model"]["fixed_ms"] == pytest.approx(12.5 / 2, rel=0.5)
    assert found["rates"][0]["on_target"]


def test_without_write_it_only_shows_and_draws(file: Path, tmp_path: Path) -> None:
    before = file.read_text()
    ran = calibrate("--max-rps", "3", "--chart", "knee.svg")
    assert ran.code == 0, ran.err

    assert file.read_text() == before
    assert "+++ giveway.toml (proposed)" in ran.out
    assert "add --write" in ran.err
    assert "not reached: 3.0 requests a second keep the target" in ran.out
    picture = (tmp_path / "knee.svg").read_text()
    assert "highest rate tried" in picture
    assert "server model" in picture


def test_without_a_file_it_prints_a_whole_one(
    file: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    entry = f'[{{"name": "gpu-b", "base_url": "{server.url}", "models": ["fake-chat"]}}]'
    monkeypatch.setenv("GIVEWAY_ENDPOINTS", entry)
    ran = calibrate("--max-rps", "3", "--write")
    assert ran.code == 0, ran.err

    made = tomllib.loads(ran.out[ran.out.index("[[pools]]") :])
    assert made["pools"][0]["name"] == "main"
    assert made["endpoints"][0]["base_url"] == server.url
    assert "max_batch_items" not in made["endpoints"][0]  # It serves no embedding model.
    assert not file.exists()


def test_somebody_elses_traffic_stops_it_unless_one_insists(file: Path, server: Served) -> None:
    wire = Wire(server.url)
    asked = ChatRequest("fake-chat", (Message("user", "word " * 8_000),), max_tokens=8_000)
    gone = Cancel()
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(wire.chat, asked, deadline_s=300, cancelled=gone)
        until(lambda: wire.metrics().running == 1, 10, "the traffic")
        refused = calibrate()
        insisting = calibrate("--max-rps", "2", "--despite-traffic")
        gone.set()
        assert isinstance(asking.exception(), Abandoned)
    wire.close()

    assert refused.code == 2
    assert "is working on 1 requests of others" in refused.err
    assert "--despite-traffic" in refused.err
    assert insisting.code == 0
    assert "has 1 requests of others" in insisting.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--endpoint", "gpu-z"), "no endpoint 'gpu-z'; known: gpu-a"),
        (("--pool", "nope"), "no pool 'nope'; known: main"),
        (("--model", "gpt"), "no model at endpoint 'gpu-a' 'gpt'; known: fake-chat, fake-embed"),
        (("--chart", "knee.jpg"), "a chart is a .png or .svg file"),
        (("--target-p95-ms", "5"), "the target of 5 ms can never be kept"),
    ],
)
def test_what_cannot_be_is_said_with_what_would_be_right(
    file: Path, flags: tuple[str, str], said: str
) -> None:
    ran = calibrate(*flags)

    assert ran.code == 2
    assert said in ran.err


def test_what_the_environment_says_cannot_be_written_into_a_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_POOLS", '[{"name": "main", "total": 8}]')
    ran = calibrate("--write")

    assert ran.code == 2
    assert "GIVEWAY_POOLS is set and wins over giveway.toml" in ran.err


def test_a_chart_without_matplotlib_is_told_before_anything_is_measured(
    file: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = calibrate("--chart", "knee.png")

    assert ran.code == 1
    assert "pip install 'giveway[charts]'" in ran.err
    assert server.ledger()["requests"] == 0


def test_secrets_that_stand_near_are_not_shown() -> None:
    before = 'password = "s3cr3t"\nurl = "postgresql://u:s3cr3t@h/d"\ntotal = 8\n'
    change = Change(Path("giveway.toml"), before, before.replace("8", "4"))

    assert "s3cr3t" not in change.shown
    assert "+total = 4\n" in change.shown


def test_an_endpoint_that_the_file_does_not_declare_keeps_its_part_out_of_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "giveway.toml"
    path.write_text("# no endpoints: the stack brings one\n")
    spec = EndpointSpec("simulated", "main", "simulated", "http://x/v1", ("m",), 8)
    proposal = Proposal(4, 3, 1000, 200, 17.5, 6, max_batch_items=32, max_batch_tokens=900)

    found = change(Settings(), path, spec, proposal)

    assert found.endpoint_left_out
    assert tomllib.loads(found.after) == {"pools": [{"name": "main", **proposal.pool}]}
