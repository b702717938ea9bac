"""Schedules through real control workers and real beats, each of them doubled."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from app.domain.schedules import Missed, Overlap, Rule
from app.storage.database import database_now
from tests.hooked import hooked
from tests.processes import Processes
from tests.rig import MakeRig
from tests.waiting import until

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.slow
def test_doubled_control_workers_and_beats_launch_each_run_once_and_tell_it_once(
    processes: Processes, rig: MakeRig, tmp_path: Path
) -> None:
    """A schedule of every minute, three minutes behind; one launcher is killed at its work. Where
    its source is stands in a variable that only the control workers have."""
    one = rig()
    docs = tmp_path / "docs.jsonl"
    docs.write_text("\n".join(json.dumps({"id": f"d{n}", "text": f"t {n}"}) for n in range(200)))
    with hooked() as receiver:
        template = {
            "kind": "embed",
            "params": {"model": "fake-embed", "collection": "docs"},
            "source": {"uri": "env:THE_DOCS", "id_field": "id"},
            "webhook": {"url": receiver.url, "secret_env": "HOOK_SECRET"},
        }
        rule = Rule("* * * * *", missed=Missed.ALL, overlap=Overlap.QUEUE)
        one.wiring.scheduling.add("minutely", rule, template)
        with one.database.transaction() as tx:
            now = database_now(tx)
        behind = now.replace(second=0, microsecond=0) - timedelta(minutes=3, seconds=1)
        one.execute("UPDATE schedules SET seen_until = :at", at=behind)
        secret = {"HOOK_SECRET": SECRET, "THE_DOCS": str(docs)}
        workers = [processes.worker("control", **secret), processes.worker("control", **secret)]
        workers.append(processes.worker("batch"))
        for worker in workers:
            worker.ready()
        for _ in range(2):
            processes.beat()

        def launched() -> int:
            return int(one.one("SELECT count(*) FROM schedule_runs WHERE state = 'launched'"))

        until(lambda: launched() >= 2, 40, "two launches")
        workers[0].process.kill()
        until(lambda: launched() >= 4, 40, "the launches of all that was missed")
        one.wiring.scheduling.remove("minutely")
        ends = "SELECT count(*) FROM jobs WHERE state <> 'completed'"
        until(lambda: one.one(ends) == 0, 40, "the end of the jobs")
        until(lambda: len(receiver.came) >= 4, 20, "the webhooks")

    keys = [row.key for row in one.rows("SELECT key FROM jobs ORDER BY key")]
    assert len(keys) == len(set(keys)) >= 4
    assert one.one("SELECT count(*) FROM embeddings") == 200
    assert one.endpoint.ledger()["most_times_one_input_was_sent"] == 1
    assert len({headers["webhook-id"] for headers, _ in receiver.came}) == len(keys)
    for headers, content in receiver.came:
        assert Webhook(SECRET).verify(content, headers)["type"] == "job.completed"
    assert not {"HOOK_SECRET", "THE_DOCS"} & os.environ.keys()
