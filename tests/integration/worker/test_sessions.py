"""The sessions that workers really have: what bounds them, and that no two processes share any."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from app.services.submission import JobRequest
from tests.processes import Processes
from tests.rig import MakeRig, Texts
from tests.waiting import until

HELD = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'giveway batch@test'
"""


def told_by(app: Any, tasks: int) -> list[dict[str, Any]]:
    """What so many tasks at once say of their sessions."""
    sent = [app.send_task("tests.show", (0.3,), queue="batch") for _ in range(tasks)]
    return [one.get(timeout=60, disable_sync_subtasks=False) for one in sent]


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_sessions_are_bounded_in_time_and_number_and_are_each_processes_own(
    processes: Processes, rig: MakeRig, pool: str
) -> None:
    one = rig()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    processes.worker("batch", "-I", "tests.showing", pool=pool).ready()
    told = told_by(app, 24)
    held = one.one(HELD)
    app.close()

    bounds = {(t["idle_in_transaction_session_timeout"], t["statement_timeout"]) for t in told}
    assert bounds == {("30s", "30s")}
    assert {t["TimeZone"] for t in told} == {"UTC"}
    assert {t["most"] for t in told} == {8 + 2}  # Eight at work, the heartbeat and one to spare.
    used = defaultdict(set)
    for one_told in told:
        used[one_told["backend"]].add(one_told["process"])
    assert all(len(sharing) == 1 for sharing in used.values())
    by_process = {process for sharing in used.values() for process in sharing}
    assert len(used) <= held <= (8 + 2) * (1 + len(by_process))
    assert (len(by_process) > 1) is (pool == "prefork")


def test_a_forked_process_makes_calls_of_every_sort_again_and_again(
    processes: Processes, rig: MakeRig
) -> None:
    """A client that is bound to an event loop works for the first task of a process, no longer. One
    call in four is refused, and no layer between Celery and the socket tries it again."""
    one = rig()
    one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    one.endpoint.order({"kind": "status", "status": 429, "probability": 0.25})
    patience = {"GIVEWAY_BATCH__RETRY_BASE_S": "0.05", "GIVEWAY_BATCH__RETRY_MAX_S": "0.1"}
    worker = processes.worker("batch", "-c", "2", pool="prefork", **patience).ready()
    params = {"model": "fake-chat", "prompt": "{{ text }}", "max_tokens": 4}
    texts = Texts([f"text number {n}" for n in range(40)])
    chats = one.wiring.submission.submit(
        JobRequest("generate", params, key="chats", chunk_items=2), texts
    ).job
    vectors = one.submit([f"text number {n}" for n in range(40)], chunk_items=2).job

    def done() -> bool:
        one.wiring.ringing.ring("main")
        return {one.job(job.id).state for job in (chats, vectors)} == {"completed"}

    until(done, 90, "both jobs")
    assert (one.progress(chats.id).done, one.progress(vectors.id).done) == (40, 40)
    calls = "SELECT count(*), count(error_code) FROM batch_calls"
    made, refused = one.rows(calls)[0]
    assert one.endpoint.ledger()["requests"] == made
    assert made - refused == 60
    assert refused > 0
    assert one.rows("SELECT max(attempt), max(crashes) FROM chunks") == [(0, 0)]
    assert "Event loop" not in worker.said
    assert "Traceback" not in worker.said
