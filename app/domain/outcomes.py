"""How an attempt ended, as values, and what follows from it.

The one place that decides what an endpoint's error means for the items of a micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from app import errors
from app.domain.blame import Blame


@dataclass(frozen=True, slots=True)
class Retry:
    """Try these items again later; an attempt is counted."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snooze:
    """The endpoint cannot now. It cools down; the chunk goes back for any other to take, the place
    is freed, no attempt is counted."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing was sent: the rate budget has no room. The chunk goes back for `after_s`, the place
    is freed, no attempt is counted; the endpoint is at no fault."""

    after_s: float
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
    """No item of this job can succeed at this endpoint until a person acts."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class HandBack:
    """We closed the call ourselves. The chunk goes back, no attempt is counted."""


Consequence = Retry | Snooze | Wait | Bisect | FailItems | PauseJob | HandBack


def consequence(
    error: errors.EndpointError, items: int, attempt: int = 0, blame: Blame = Blame.ENDPOINT
) -> Consequence:
    """What `error` means for a micro-batch of `items` items, tried `attempt` times before.

    What is the input's fault is looked for among the items, and is tried again alone, an attempt
    counted, whatever the code: so it ends, and holds up nobody.
    A bad reply is the endpoint's fault at first, and the items are tried elsewhere. Where they have
    one again, it may be that of one of them (a text whose vector is NaN, say): it is looked for, so
    that it fails alone.
    """
    code, reason = error.code, str(error)
    if blame is Blame.INPUT:
        return Bisect(code, reason) if items > 1 else Retry(code, reason)
    match error:
        case errors.RateLimited() | errors.Overloaded() | errors.ConnectionFailed():
            return Snooze(code, reason)
        case errors.QuotaExhausted() | errors.AuthFailed() | errors.ModelMissing():
            return PauseJob(code, reason)
        case errors.BadRequest() | errors.TooLong() | errors.ContentRefused():
            return Bisect(code, reason) if items > 1 else FailItems(code, reason)
        case errors.BadReply() if attempt > 0 and items > 1:
            return Bisect(code, reason)
        case errors.BudgetSpent():
            return Wait(error.retry_after_s or 0.0, code, reason)
        case errors.Abandoned():
            return HandBack()
        case _:
            return Retry(code, reason)
