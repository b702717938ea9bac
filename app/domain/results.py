"""What is recorded for an item, once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How an item ended.

    DONE: answered; with a `code` not all came of it that should have (a judge gave no verdict), and
    it is tried again like a failed one when a person asks for that. UNCHANGED: the same content was
    there already, no call was made.
    EMPTY: nothing to send. FAILED: final failure; `code` says which.
    """

    DONE = "done"
    UNCHANGED = "unchanged"
    EMPTY = "empty"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ItemResult:
    """The result of one item; `tokens` are those of its share of the request."""

    seq: int
    status: Status
    code: str | None = None
    error: str | None = None
    tokens: int = 0
    output: Any = None


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of a job, as it was loaded."""

    seq: int
    key: str
    payload: dict[str, Any]
