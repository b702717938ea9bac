"""Faults of a kind's own code, which may be anybody's: told by class and place, not by text."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import GivewayError, KindFault

log = logging.getLogger(__name__)

KIND_FAULT = "kind_fault"
"""The kind itself failed on an item: it raised, or named no new step and gave no result."""


def fault_of(kind: str, error: Exception) -> str:
    """What the kind's code did, as a person may read it; the log is told as well.

    The exception's own text may quote an item, so that only its class is said, and where it was
    raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    said = f"{kind} raised {type(error).__name__}{where}"
    log.warning("kind %s", said)
    return said


@contextmanager
def code_of(kind: str) -> Iterator[None]:
    """A block of the kind's own code: what it raises is a KindFault, but for errors of ours."""
    try:
        yield
    except GivewayError:
        raise
    except Exception as error:
        raise KindFault(fault_of(kind, error)) from error
