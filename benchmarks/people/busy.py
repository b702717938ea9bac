"""Somebody else's work on one core, at our own priority: `benchmarks.people.busy SECONDS`.

It ends by itself, whatever becomes of who started it.
"""

from __future__ import annotations

import sys
import time


def _spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    number = 1
    while time.monotonic() < until:
        for _ in range(10_000):
            number = number * 1_103_515_245 % 2_147_483_647


if __name__ == "__main__":
    _spin(float(sys.argv[1]))
