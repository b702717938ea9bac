"""The simulated endpoint's process: when it says that it listens, it also ends as it is told."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

ENDED_AT_ITS_WORD = """
import os, runpy, sys

say = sys.stdout.write

def write(text):
    said = say(text)
    sys.stdout.flush()
    if "listening on" in text:
        os.kill(os.getpid(), {number})
    return said

sys.stdout.write = write
sys.argv = ["simulated", "--port", "0"]
runpy.run_module("app.inference.simulated", run_name="__main__")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_it_said_that_it_listens_ends_it_with_status_0(
    number: signal.Signals,
) -> None:
    program = ENDED_AT_ITS_WORD.format(number=int(number))
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("listening on http://127.0.0.1:")
