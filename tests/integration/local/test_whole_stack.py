"""Everything `giveway up` starts, through the command itself."""

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from app.local.state import running_state
from tests.waiting import counted, started, until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

NAMES = ["postgres", "valkey", "simulated", "interactive", "batch", "control", "beat", "flower"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True) as path:
        data = Path(path) / "data"
        with counted("stack starts"):
            up = giveway(data, "up", "--detach")
        assert up.returncode == 0, up.stderr
        started["stacks"] += 1
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
    """What the command says; to wait for something, look at `running`."""
    return json.loads(giveway(data, "status", "--json").stdout)


def running(data, name):
    """One process as the supervisor has written it down."""
    return next(one for one in running_state(data).processes if one.name == name)


def pids(data):
    return {one.name: one.birth.pid for one in running_state(data).processes if one.birth}


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
    assert [one["name"] for one in found["processes"]] == NAMES
    assert {one["state"] for one in found["processes"]} == {"running"}
    assert found["pools"][0]["name"] == "main"


def test_celerys_own_commands_meet_the_running_stack(data, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIVEWAY_")}
    code = "import app; print(app.celery.conf.broker_url)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "GIVEWAY_DATA": str(data), "PYTHONPATH": str(Path.cwd())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == running_state(data).addresses.broker_url, ran.stderr


def test_a_restart_takes_up_changed_settings_and_loses_nothing(data):
    config = data.parent / "giveway.toml"
    (data.parent / "docs.jsonl").write_text(
        "".join(json.dumps({"id": n, "text": f"text {n}"}) + "\n" for n in range(3000))
    )
    before = pids(data)
    try:
        config.write_text('[[pools]]\nname = "main"\ntotl = 5\n')
        refused = giveway(data, "restart")
        assert (refused.returncode, "did you mean 'total'?" in refused.stderr) == (2, True)
        assert "nothing was restarted" in refused.stderr
        assert pids(data)["batch"] == before["batch"]

        config.write_text('[[pools]]\nname = "main"\ntotal = 5\n')
        submitted = giveway(data, "submit", "embed", "docs.jsonl", "--id-field", "id", "--key", "k")
        assert submitted.returncode == 0, submitted.stderr
        ran = giveway(data, "restart")
        assert ran.returncode == 0, ran.stderr
        after = pids(data)
        assert {n for n in NAMES if after[n] == before[n]} == {"postgres", "valkey"}
        assert status(data)["pools"][0]["total"] == 5
        watched = giveway(data, "jobs", "watch", "k", "--json")
        assert watched.returncode == 0, watched.stderr
        assert json.loads(watched.stdout)["done"] == 3000
    finally:
        config.unlink(missing_ok=True)
        assert giveway(data, "restart").returncode == 0


SENDER = """
import sys
from celery import Celery
app = Celery("yours", broker=sys.argv[1], backend=sys.argv[1])
kwargs = {"model": "fake-chat", "prompt": "where is parcel 4711?", "max_tokens": 8}
sent = app.send_task("giveway.interactive.chat", kwargs=kwargs, queue="interactive")
print(sent.get(timeout=60)["text"])
"""


def test_requests_that_are_over_leave_no_prompt_on_disk(data):
    asked = giveway(data, "ask", "where is parcel 4711?", "--model", "fake-chat")
    assert asked.returncode == 0, asked.stderr
    sent = subprocess.run(
        [sys.executable, "-c", SENDER, running_state(data).addresses.broker_url],
        capture_output=True,
        text=True,
        check=False,
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
    before = running(data, name)
    os.kill(before.birth.pid, signal.SIGKILL)

    def back():
        one = running(data, name)
        return one.state == "running" and one.birth not in (None, before.birth) and one

    assert until(back, 60).restarts == before.restarts + 1


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
