"""Celery apps that have nothing of ours: what README shows them, and queues that they declared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Queue

from app.domain.examination.broker import queues as told_of
from app.domain.examination.findings import Severity
from app.settings import Settings
from app.worker import reaching
from app.worker.looking import look
from tests.commands import giveway
from tests.integration.worker.conftest import BROKERS
from tests.processes import Processes, until
from tests.rig import MakeRig

ROOT = Path(__file__).parents[3]
NAMES = ("interactive", "batch", "control")


def readme_snippet() -> str:
    """The one Python snippet of README.md as it stands, but for the model's name; before it the app
    that it speaks of."""
    (found,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert found.count("my-chat-model") == 1
    found = found.replace("my-chat-model", "fake-chat")
    backend = "broker if broker.startswith('redis') else 'rpc://'"
    return (
        "import os\nfrom celery import Celery\nbroker = os.environ['GIVEWAY_BROKER__URL']\n"
        f"your_app = Celery('yours', broker=broker, backend={backend})\n{found}"
    )


def started(stack: Processes) -> subprocess.Popen[str]:
    """Somebody who runs the snippet."""
    return subprocess.Popen(
        [sys.executable, "-c", readme_snippet()],
        env={**os.environ, "GIVEWAY_BROKER__URL": stack.environment["GIVEWAY_BROKER__URL"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(asked: subprocess.Popen[str]) -> str:
    """What it printed."""
    out, err = asked.communicate(timeout=60)
    assert asked.returncode == 0, err
    return out.strip()


@pytest.fixture
def forgotten(stack: Processes) -> Processes:
    """The broker knows no queue of ours."""
    url = stack.environment["GIVEWAY_BROKER__URL"]
    if url.startswith("amqp"):
        with Connection(url) as connection:
            for name in NAMES:
                connection.channel().queue_delete(name)
                connection.channel().exchange_delete(name)
    return stack


def waiting(url: str, name: str = "interactive") -> int:
    """Messages in a queue; 0 where there is none."""
    with Connection(url) as connection:
        try:
            found = connection.channel().queue_declare(name, passive=True)
        except connection.channel_errors:
            return 0
        return int(found.message_count)


@pytest.mark.parametrize("stack", BROKERS, indirect=True)
def test_what_readme_shows_works_before_our_workers_are_there_and_after(
    forgotten: Processes, rig: MakeRig
) -> None:
    rig()
    url = forgotten.environment["GIVEWAY_BROKER__URL"]
    before = started(forgotten)
    until(lambda: waiting(url) == 1, 30, "the request")
    forgotten.worker("interactive", "-c", "4").ready()

    assert answer(before)
    assert answer(started(forgotten))
    assert told_of(look(Settings(broker={"url": url})))[0].severity is Severity.OK


OTHERWISE: dict[str, tuple[str, dict[str, Any], str]] = {
    "priorities": ("interactive", {"x-max-priority": 9}, "x-max-priority is 9, not none"),
    "quorum": ("interactive", {"x-queue-type": "quorum"}, "x-queue-type is quorum, not "),
    "classic": ("batch", {}, "x-queue-type is none, not quorum"),
}


@pytest.mark.parametrize("how", OTHERWISE)
@pytest.mark.parametrize("stack", BROKERS[1:], indirect=True)
def test_a_queue_that_others_declared_otherwise_is_used_as_it_is_and_told(
    forgotten: Processes, rig: MakeRig, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, arguments, differs = OTHERWISE[how]
    one = rig()
    url = forgotten.environment["GIVEWAY_BROKER__URL"]
    with Connection(url) as connection:
        Queue(name, queue_arguments=arguments)(connection.channel()).declare()
    for queue in ("interactive", "batch"):
        forgotten.worker(queue, "-c", "2").ready()
    app = one.with_broker(url)
    asked = {"prompt": "Say something.", "model": "fake-chat", "max_tokens": 4}
    assert app.send_task("giveway.interactive.chat", kwargs=asked).get(timeout=30)["text"]
    job = one.submit(["one", "two"]).job
    until(lambda: reaching.ring(one.wiring, job.pool) or one.job(job.id).state == "completed", 20)
    until(lambda: one.job(job.id).state == "completed", 30, "the job's end")

    monkeypatch.setenv("GIVEWAY_BROKER__URL", url)
    url_of_database = one.wiring.settings.database.url
    assert url_of_database is not None
    monkeypatch.setenv("GIVEWAY_DATABASE__URL", url_of_database.get_secret_value())
    said = giveway("doctor").out
    assert f"queue {name}" in said
    assert differs in " ".join(said.split())
    (found,) = told_of(look(Settings(broker={"url": url})))
    assert f"rabbitmqctl delete_queue {name}" in (found.right or "")
