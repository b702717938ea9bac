"""What both brokers must carry: all that a request says of itself, and Celery's own revoke."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult

from app import clock
from app.errors import Abandoned
from tests.integration.worker.conftest import BROKERS
from tests.processes import Processes
from tests.rig import MakeRig
from tests.waiting import until


@pytest.mark.parametrize("stack", BROKERS, indirect=True)
def test_a_request_carries_who_what_how_urgent_until_when_and_since_when(
    stack: Processes, rig: MakeRig
) -> None:
    one = rig()
    app = one.with_broker(stack.environment["GIVEWAY_BROKER__URL"])
    stack.worker("interactive", "-c", "4").ready()
    asked_at = clock.now() - timedelta(seconds=3)
    common = {"priority": 7, "deadline_s": 60, "submitted_at": asked_at.timestamp()}
    sent = [
        app.send_task(
            f"giveway.interactive.{task}", kwargs={**common, **more, "user": user}, expires=60
        )
        for task, user, more in (
            ("chat", "ada", {"prompt": "Say something.", "model": "fake-chat", "max_tokens": 4}),
            ("embed", "bob", {"texts": ["one"], "model": "fake-embed"}),
        )
    ]
    for result in sent:
        assert result.get(timeout=30)["role"] == "primary"
    rows = one.rows(
        "SELECT id, user_id, task_type, priority, deadline_at, submitted_at"
        " FROM interactive_requests ORDER BY user_id"
    )
    until_at = asked_at + timedelta(seconds=60)
    assert rows == [
        (uuid.UUID(sent[0].id), "ada", "chat", 7, until_at, asked_at),
        (uuid.UUID(sent[1].id), "bob", "embed", 7, until_at, asked_at),
    ]


@pytest.mark.parametrize("stack", BROKERS, indirect=True)
def test_a_revoked_request_is_not_sent_and_a_terminated_one_is_closed(
    stack: Processes, rig: MakeRig
) -> None:
    one = rig()
    app = one.with_broker(stack.environment["GIVEWAY_BROKER__URL"])
    stack.worker("interactive", "-c", "2").ready()
    one.endpoint.order({"kind": "hang", "path": "chat"})

    def asked() -> AsyncResult:
        kwargs = {"prompt": "Say something.", "model": "fake-chat"}
        return app.send_task("giveway.interactive.chat", kwargs=kwargs)

    def stands(result: AsyncResult) -> tuple[str, str | None] | None:
        told = "SELECT state, error_code FROM interactive_requests WHERE id = :id"
        return next(iter(one.rows(told, id=uuid.UUID(result.id))), None)

    running = asked()
    until(lambda: stands(running) == ("running", None), 20, "the call")
    waiting = asked()  # For the endpoint's one place.
    until(lambda: stands(waiting) == ("queued", None), 20, "the line")
    unread = asked()  # For one of the worker's two threads.
    app.control.revoke([running.id, waiting.id, unread.id])

    with pytest.raises(Abandoned, match="dropped unstarted"):
        waiting.get(timeout=30)
    with pytest.raises(TaskRevokedError):
        unread.get(timeout=30)
    until(lambda: stands(waiting) == ("dropped", "abandoned"), 20, "the row of who waited")
    until(lambda: stands(unread) == ("dropped", "abandoned"), 20, "the row of what was not begun")
    assert stands(running) == ("running", None)  # As with Celery, unless it is to be terminated.

    app.control.revoke(running.id, terminate=True)
    with pytest.raises(Abandoned):
        running.get(timeout=30)
    until(lambda: stands(running) == ("failed", "abandoned"), 20, "the row's end")
    assert one.endpoint.ledger()["requests"] == 1
