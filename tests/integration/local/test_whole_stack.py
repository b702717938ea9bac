"""Everything `giveway up` starts, through the command itself."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.slow]

NAMES = ["postgres", "valkey", "simulated", "interactive", "batch", "control", "beat", "flower"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True) as path:
        data = Path(path) / "data"
        started = giveway(data, "up", "--detach")
        assert started.returncode == 0, started.stderr
        yield data
        giveway(data, "down")


def giveway(data, *words):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIVEWAY_")}
    return subprocess.run(
        [sys.executable, "-m", "app.cli.main", *words, "--data", str(data)],
        env=environment,
        cwd=data.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def status(data):
    return json.loads(giveway(data, "status", "--json").stdout)


def processes(found):
    return {one["name"]: one for one in found["processes"]}


def until(true, within_s=60):
    deadline = time.monotonic() + within_s
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def answer(url, path, user=None, password=""):
    request = urllib.request.Request(url + path)
    if user:
        word = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_every_process_is_up_and_named(data):
    found = status(data)
    assert list(processes(found)) == NAMES
    assert {one["state"] for one in found["processes"]} == {"running"}
    assert found["pools"][0]["name"] == "main"


SENDER = """
import sys
from celery import Celery
app = Celery("yours", broker=sys.argv[1], backend=sys.argv[1])
kwargs = {"model": "fake-chat", "prompt": "where is parcel 4711?", "max_tokens": 8}
sent = app.send_task("giveway.interactive.chat", kwargs=kwargs, queue="interactive")
print(sent.get(timeout=60)["text"])
"""


def test_requests_that_are_over_leave_no_prompt_on_disk(data):
    broker = json.loads(giveway(data, "status", "--json", "--show-secrets").stdout)["broker_url"]
    asked = giveway(data, "ask", "where is parcel 4711?", "--model", "fake-chat")
    assert asked.returncode == 0, asked.stderr
    sent = subprocess.run(
        [sys.executable, "-c", SENDER, broker], capture_output=True, text=True, check=False
    )
    assert sent.returncode == 0, sent.stderr

    files = [path for path in data.rglob("*") if path.is_file()]
    assert [path for path in files if b"parcel 4711" in path.read_bytes()] == []


def test_flower_asks_for_the_password_that_status_points_to(data):
    flower = status(data)["flower"]
    password = Path(flower["password_file"]).read_text()
    assert answer(flower["url"], "/workers")[0] == 401
    assert answer(flower["url"], "/workers", flower["user"], "wrong")[0] == 401

    def sees_all():
        code, body = answer(flower["url"], "/api/workers?refresh=1", flower["user"], password)
        assert code == 200
        return {name.split("@")[0] for name in json.loads(body)} == {
            "interactive",
            "batch",
            "control",
        }

    until(sees_all)


@pytest.mark.parametrize("name", NAMES)
def test_each_that_is_killed_comes_back(data, name):
    before = processes(status(data))[name]
    os.kill(before["pid"], signal.SIGKILL)

    def back():
        one = processes(status(data))[name]
        return one["state"] == "running" and one["pid"] != before["pid"] and one

    assert until(back)["restarts"] == before["restarts"] + 1


def test_a_killed_supervisor_takes_everything_with_it_and_up_brings_it_back(data):
    found = status(data)
    before = [psutil.Process(one["pid"]) for one in found["processes"]]
    os.kill(found["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: not [one for one in before if lives(one)], within_s=10)
    assert giveway(data, "status").returncode == 1
    assert giveway(data, "up", "--detach").returncode == 0
    assert status(data)["database_url"] == found["database_url"]


def lives(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_down_leaves_nothing(data):
    before = [psutil.Process(one["pid"]) for one in status(data)["processes"]]
    assert giveway(data, "down").returncode == 0
    assert [one for one in before if lives(one)] == []
