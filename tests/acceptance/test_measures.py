"""What people wait beside batch work of several sorts: nothing else runs meanwhile."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.acceptance.stack import Stack, documents
from tests.acceptance.test_faults import people

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
    assert one.run("jobs", "cancel", "nightly-1").returncode == 0


def test_two_poisonous_items_fail_alone_and_neither_their_job_nor_people_notice(
    shared: Stack, tmp_path: Path
) -> None:
    one = shared
    one.endpoint.order(
        {"kind": "drop", "path": "chat", "text": "POISON-A"},
        {"kind": "status", "status": 503, "path": "chat", "text": "POISON-B"},
    )
    items = tmp_path / "items.jsonl"
    marks = {3: "POISON-A", 11: "POISON-B"}
    texts = [f"What is {n} and {n}? {marks.get(n, '')}" for n in range(20)]
    items.write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts)))
    opened = "SELECT count(*) FROM events WHERE type = 'endpoint_opened'"
    opened_before = one.query(opened)
    with people(one, 10, rps=5) as without:
        pass
    alone = on_target(one, since_s=10)
    with people(one, 25, rps=5) as beside:
        began = time.monotonic()
        submit = ("submit", "generate", str(items), "--prompt", "{{ text }}", "--key", "poisoned")
        one.json(*submit, "--model", "fake-chat", "--max-tokens", "8", "--id-field", "id")
        job = one.wait_completed("poisoned", 60)
        took_s = time.monotonic() - began
    assert (job["done"], job["failed"]) == (18, 2)
    assert took_s < 60
    codes = (
        "SELECT string_agg(r.code, ',' ORDER BY seq) FROM results r JOIN jobs j ON j.id = r.job_id"
        " WHERE status = 'failed' AND key = 'poisoned'"
    )
    assert one.query(codes) == "connection,overloaded"
    assert beside[0]["failed"] == without[0]["failed"] == 0
    assert on_target(one, since_s=25) >= alone - 0.1
    assert one.query(opened) == opened_before


def on_target(one: Stack, since_s: float) -> float:
    """The share of people whose first token came within the pool's target."""
    in_time = "first_token_at - submitted_at <= interval '500 ms'"
    sql = f"SELECT avg(CASE WHEN {in_time} THEN 1.0 ELSE 0.0 END) FROM interactive_requests"
    sql += f" WHERE submitted_at > now() - make_interval(secs => {since_s})"
    return float(one.query(sql))
