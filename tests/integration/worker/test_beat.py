"""Beat only ticks."""

from __future__ import annotations

import redis

from tests.processes import Processes
from tests.waiting import until

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def test_beat_ticks_on_while_there_is_no_database(processes: Processes) -> None:
    beat = processes.celery(
        *("beat", "--schedule", str(processes.folder / "beat")),
        name="beat",
        GIVEWAY_DATABASE__URL=NOWHERE,
    )
    with redis.Redis.from_url(processes.environment["GIVEWAY_BROKER__URL"]) as broker:
        until(lambda: broker.llen("control") >= 3, 30, "three ticks")
        seen = broker.llen("control")
        until(lambda: broker.llen("control") > seen, 30, "another tick")
    assert beat.process.poll() is None
    assert "Traceback" not in beat.said
