"""A process with a lane of its own, for tests: `python -m tests.lanes SETTINGS ORDER`, both JSON.

ORDER: {"ids": […] or "count": n, "rps": n, "mutant": name}. It says "ready" and waits for a line;
then it asks, and says what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import uuid
from collections import Counter
from typing import Any

from app import clock
from app.domain.admission import admitted
from app.domain.inference import ChatRequest, Message
from app.domain.requests import NewRequest
from app.services.people import admission
from app.settings import Settings
from app.storage import lane_store
from app.wiring import Wiring

HELLO = ChatRequest("fake-chat", (Message("user", "Hello there."),), 8)


def without_the_lock() -> None:
    lane_store._LOCK = lane_store._LOCK.replace(" FOR UPDATE", "")


def in_one_statement() -> None:
    """What is counted is counted with the snapshot of the statement that waits for the lock."""
    lock, lane_store._LOCK = lane_store._LOCK, "SELECT 1"
    locked = f"WITH locked AS MATERIALIZED ({lock})"
    at_once = lane_store._ARRIVE_AT_ONCE
    assert "    WITH flying AS" in at_once
    at_once = at_once.replace("    WITH flying AS", f"    {locked}, flying AS", 1)
    lane_store._ARRIVE_AT_ONCE = at_once.replace("FROM room, unnest", "FROM locked, room, unnest")
    lane_store._ARRIVE_AT_ONCE = lane_store._ARRIVE_AT_ONCE.replace(
        "FROM room,", "FROM locked, room,", 1
    )
    lane_store._OCCUPANCY = (
        f"{locked} SELECT counted.* FROM locked, ({lane_store._OCCUPANCY}) AS counted"
    )


def a_place_given_twice() -> None:
    """Each who waits is chosen for as if nobody else of the group were."""

    def careless(line: Any, own: Any, scene: Any) -> Any:
        chosen: dict[Any, Any] = {}
        for call, model in line:
            if call in own:
                chosen |= admitted([(call, model)], {call: own[call]}, scene)
        return chosen

    admission.admitted = careless


MUTANTS = {
    "without the lock": without_the_lock,
    "in one statement": in_one_statement,
    "a place given twice": a_place_given_twice,
}


async def asked(wiring: Wiring, request: NewRequest) -> str:
    try:
        await wiring.interactive.call(request, HELLO)
    except Exception as error:
        return type(error).__name__
    return "ok"


async def all_of(wiring: Wiring, order: dict[str, Any]) -> Counter[str]:
    ids = [uuid.UUID(one) for one in order.get("ids", ())]
    ids = ids or [uuid.uuid4() for _ in range(order["count"])]
    began, asking = time.monotonic(), []
    for number, one in enumerate(ids):
        await asyncio.sleep(max(0.0, began + number / order["rps"] - time.monotonic()))
        priority = random.randrange(3)
        new = NewRequest(one, "main", "chat", "fake-chat", clock.now(), priority=priority)
        asking.append(asyncio.create_task(asked(wiring, new)))
    return Counter(await asyncio.gather(*asking))


def main() -> None:
    settings, order = (json.loads(given) for given in sys.argv[1:3])
    if order.get("mutant"):
        MUTANTS[order["mutant"]]()
    wiring = Wiring(Settings(**settings))
    wiring.interactive.settle()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asyncio.run(all_of(wiring, order))), flush=True)
    wiring.close()


if __name__ == "__main__":
    main()
