"""What people wait beside a backfill, with the limit off and on: nothing else runs meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.acceptance.stack import Stack, documents

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]


def test_people_keep_their_latency_beside_a_saturating_backfill(
    shared: Stack, tmp_path: Path
) -> None:
    """Interactive P95 with the throttle is at most half of what it is with the limit off."""
    one = shared
    one.submit(documents(tmp_path / "docs.jsonl", 120_000), "nightly-1")
    one.wait_done("nightly-1", 500)
    load = ("load", "--rps", "8", "--seconds", "12", "--model", "fake-chat", "--max-tokens", "16")
    assert one.run("throttle", "set", "7", "--for", "10m").returncode == 0
    time.sleep(2)
    off = one.json(*load)
    assert one.run("throttle", "clear").returncode == 0
    time.sleep(2)
    on = one.json(*load)

    assert (off["failed"], on["failed"]) == (0, 0)
    assert on["p95_ms"] <= 0.5 * off["p95_ms"], (on, off)
    assert one.job("nightly-1")["failed"] == 0
