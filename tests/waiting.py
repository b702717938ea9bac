"""Waiting for an event: the one way in which tests wait.

What is waited for is an event, so the bound only says when to give up. A busy machine may take
several times as long as a quiet one; a test that fails then has told nobody anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 4.0
"""How many times its bound a wait goes on for."""

spent_s = {"waiting": 0.0, "stack starts": 0.0}
"""Seconds of this process so far, for the table at the end of a run."""
started = {"stacks": 0}


def until(
    true: Callable[[], Found], within_s: float = 20.0, what: str = "it", *, every_s: float = 0.02
) -> Found:
    """Wait until `true()`, and return what it gave; fails long after `within_s`."""
    began = time.monotonic()
    with counted("waiting"):
        while not (found := true()):
            waited_s = time.monotonic() - began
            assert waited_s < within_s * PATIENCE, f"{what} did not happen within {waited_s:.0f} s"
            time.sleep(every_s)
    return found


@contextmanager
def counted(what: str) -> Iterator[None]:
    """Add the time that this takes to `spent_s`."""
    began = time.monotonic()
    try:
        yield
    finally:
        spent_s[what] += time.monotonic() - began
