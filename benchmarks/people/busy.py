"""Somebody else's work on every core, at our own priority: `python -m benchmarks.people.busy SECONDS`.

It ends by itself, whatever becomes of who started it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time


def _spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    number = 1
    while time.monotonic() < until:
        for _ in range(10_000):
            number = number * 1_103_515_245 % 2_147_483_647


if __name__ == "__main__":
    seconds = float(sys.argv[1])
    if len(sys.argv) == 2:
        others = [
            subprocess.Popen([sys.executable, "-m", "benchmarks.people.busy", sys.argv[1], "one"])
            for _ in range((os.cpu_count() or 1) - 1)
        ]
    print("busy", flush=True)
    _spin(seconds)
