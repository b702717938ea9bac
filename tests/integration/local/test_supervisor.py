"""The supervisor over small programs: order, restarts, giving up, stopping."""

import os
import signal
import sys
import threading
from contextlib import contextmanager

import psutil
import pytest

from app.errors import Unavailable
from app.local.output import LogFiles, Outputs
from app.local.plan import Change
from app.local.spec import ProcessSpec
from app.local.supervisor import NAME, Supervisor
from tests.waiting import until

FOREVER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True); time.sleep(600)"
)


class Lines:
    def __init__(self):
        self.seen = []

    def line(self, name, text):
        self.seen.append((name, text))


class Watched:
    """A supervisor in a thread, and what it said."""

    def __init__(self, specs):
        self.lines = Lines()
        self.history = []
        self.states = {}
        self.ready = threading.Event()
        self.error = None
        self.supervisor = Supervisor(specs, Outputs(self.lines), self._changed)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _changed(self, states, ready):
        for state in states:
            if self.states.get(state.name) != state:
                self.history.append((state.name, state.state))
            self.states[state.name] = state
        if ready:
            self.ready.set()

    def _run(self):
        try:
            self.supervisor.run()
        except Unavailable as error:
            self.error = error

    def pid(self, name):
        return self.states[name].birth.pid

    def until(self, true, within_s=10):
        try:
            until(true, within_s)
        except AssertionError as error:
            raise AssertionError(self.history, self.lines.seen) from error

    def until_ready(self):
        self.until(self.ready.is_set)

    def until_ended(self):
        self.until(lambda: not self.thread.is_alive())


@contextmanager
def watched(*specs):
    one = Watched(specs)
    one.thread.start()
    try:
        yield one
    finally:
        one.supervisor.stop()
        one.until_ended()


def program(name, code, **more):
    return ProcessSpec(name=name, argv=(sys.executable, "-c", code), **more)


def test_each_waits_for_those_it_comes_after():
    first = program("first", "import time; time.sleep(0.3); print('go', flush=True); time.sleep(9)")
    first = program("first", first.argv[2], ready_line="go")
    step = program("step", "pass", once=True, after=("first",))
    with watched(first, step, program("last", FOREVER, after=("step",))) as stack:
        stack.until_ready()
        order = [event for event in stack.history if event[1] in ("running", "done", "starting")]
    assert order.index(("first", "running")) < order.index(("step", "starting"))
    assert order.index(("step", "done")) < order.index(("last", "starting"))


def test_what_dies_is_back_at_once_and_later_when_it_dies_again():
    with watched(program("one", FOREVER, ready_line="up")) as stack:
        stack.until_ready()
        for restarts in (1, 2):
            killed = stack.pid("one")
            os.kill(killed, signal.SIGKILL)
            stack.until(lambda so_many=restarts: _is_back(stack.states["one"], so_many))
            assert stack.pid("one") != killed
    said = [text for name, text in stack.lines.seen if name == NAME]
    told = [text.partition("; ")[2] for text in said if "one died" in text]
    assert told == ["restarting it now", "restarting it in 0.5 s"]


def _is_back(state, restarts):
    return (state.restarts, state.state) == (restarts, "running") and state.birth


def test_one_that_cannot_come_up_ends_the_stack_and_shows_its_last_words():
    code = "print('no port for me'); raise SystemExit(3)"
    with watched(program("other", FOREVER), program("bad", code, ready_line="never")) as stack:
        stack.until_ended()
        assert "bad died 5 times in a row (exit status 3)" in str(stack.error)
        assert "no port for me" in str(stack.error)
        assert stack.states["other"].birth is None


def test_a_step_that_fails_ends_the_stack():
    with watched(program("step", "raise SystemExit('no table')", once=True)) as stack:
        stack.until_ended()
        assert "step failed (exit status 1)" in str(stack.error)
        assert "no table" in str(stack.error)


def test_one_that_is_never_ready_ends_the_stack():
    with watched(program("mute", FOREVER, ready=lambda: False, ready_timeout_s=0.3)) as stack:
        stack.until_ended()
        assert "mute was not ready within 0.3 s" in str(stack.error)


def test_a_preparation_that_fails_says_why():
    def prepare():
        raise Unavailable("the disk is full")

    with watched(program("one", FOREVER, prepare=prepare)) as stack:
        stack.until_ended()
        assert "one cannot be prepared: the disk is full" in str(stack.error)


def test_stages_stop_one_after_the_other():
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.2), sys.exit(0)))\n"
        "print('up', flush=True); time.sleep(600)"
    )
    specs = [
        program("server", code, stop_stage=2, ready_line="up"),
        program("worker", code, after=("server",), ready_line="up"),
    ]
    with watched(*specs) as stack:
        stack.until_ready()
    stops = [event for event in stack.history if event[1] in ("stopping", "stopped")]
    assert (
        stops
        == [
            ("worker", "stopping"),
            ("server", "stopping"),
            ("worker", "stopped"),
            ("server", "stopped"),
        ]
        or stops.index(("worker", "stopped")) <= stops.index(("server", "stopping")) + 1
    )


def test_one_that_ignores_the_signal_is_killed_after_its_time_with_its_children():
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('child', child.pid, flush=True); time.sleep(600)"
    )
    with watched(program("deaf", code, ready_line="child", stop_timeout_s=0.3)) as stack:
        stack.until_ready()
        child = psutil.Process(int(stack.lines.seen[0][1].split()[1]))
    stack.until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_asked_twice_it_stops_at_once():
    with watched(program("deaf", STUBBORN, ready_line="up", stop_timeout_s=3600)) as stack:
        stack.until_ready()
        stack.supervisor.stop()
        stack.supervisor.stop()
        stack.until_ended()  # Long before the hour that it has.


def test_lines_keep_their_process_lose_their_passwords_and_go_to_two_files(tmp_path):
    files = LogFiles(tmp_path)
    outputs = Outputs(files)
    outputs.line("batch", "connected to redis://:hunter2@127.0.0.1:1/0")
    outputs.line("beat", "tick")
    files.close()
    assert "redis://:***@" in (tmp_path / "batch.log").read_text()
    assert "hunter2" not in (tmp_path / "all.log").read_text()
    assert "beat: tick" in (tmp_path / "all.log").read_text()
    again = LogFiles(tmp_path)
    again.line("batch", "second start")
    again.close()
    assert "redis://" in (tmp_path / "batch.log.1").read_text()


def test_an_order_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="a comes after b, which is not listed before it"):
        Supervisor([program("a", "", after=("b",)), program("b", "")], Outputs())


def test_a_reload_starts_anew_what_changes_and_leaves_the_rest():
    programs = [program("kept", FOREVER), program("worker", FOREVER, after=("kept",))]
    with watched(*programs, program("gone", FOREVER)) as stack:
        assert stack.ready.wait(10)
        pids = {name: stack.pid(name) for name in ("kept", "worker", "gone")}
        anew = program("worker", FOREVER, after=("kept",), env={"WHO": "anew"})
        stack.supervisor._replan = lambda: Change((anew, program("added", FOREVER)), ("gone",))
        stack.ready.clear()
        stack.supervisor.reload()
        assert stack.ready.wait(10)
        assert stack.pid("kept") == pids["kept"]
        assert stack.pid("worker") != pids["worker"]
        assert psutil.Process(stack.pid("worker")).environ()["WHO"] == "anew"
        assert stack.states["worker"].restarts == 0
        assert psutil.pid_exists(stack.pid("added"))
        stack.until(lambda: not psutil.pid_exists(pids["gone"]))


def test_what_does_not_leave_in_time_is_killed_and_comes_back():
    deaf = program("deaf", STUBBORN, ready_line="up", stop_timeout_s=0.2)
    with watched(deaf) as stack:
        assert stack.ready.wait(10)
        pid = stack.pid("deaf")
        stack.supervisor._replan = lambda: Change((deaf,))
        stack.ready.clear()
        stack.supervisor.reload()
        assert stack.ready.wait(10)
        assert stack.pid("deaf") != pid
        assert not psutil.pid_exists(pid)
