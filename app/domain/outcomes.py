"""How an attempt ended, as values, and what follows from it.

The one place that decides what an endpoint's error means for the items of a micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from app import errors

COOL_DOWN_S = 1.0
"""Cool-down of an endpoint that refuses without saying for how long; doubled at each refusal."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try these items again later; an attempt is counted."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snooze:
    """The endpoint cannot now. The chunk goes back, the place is freed, no attempt is counted.

    `after_s` is what the endpoint asked for; None: it said nothing.
    """

    after_s: float | None
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bisect:
    """One of the inputs is bad and the server does not say which: halve until it stands alone."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailItems:
    """Final for these items; the job goes on."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class PauseJob:
    """No item of this job can succeed until a person acts."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class HandBack:
    """We closed the call ourselves. The chunk goes back, no attempt is counted."""


Consequence = Retry | Snooze | Bisect | FailItems | PauseJob | HandBack


def consequence(error: errors.EndpointError, items: int) -> Consequence:
    """What `error` means for a micro-batch of `items` items."""
    code, reason = error.code, str(error)
    match error:
        case errors.RateLimited() | errors.Overloaded() | errors.ConnectionFailed():
            return Snooze(error.retry_after_s, code, reason)
        case errors.QuotaExhausted() | errors.AuthFailed() | errors.ModelMissing():
            return PauseJob(code, reason)
        case errors.BadRequest() | errors.TooLong() | errors.ContentRefused():
            return Bisect(code, reason) if items > 1 else FailItems(code, reason)
        case errors.Abandoned():
            return HandBack()
        case _:
            return Retry(code, reason)
