"""Every error that Giveway raises on purpose, as one tree.

    GivewayError
    ├── UsageError            the caller can put it right; the message says how
    │   ├── ConfigError · BadParams · BadSource · UnknownName
    │   ├── NotFound
    │   └── Conflict ── KeyConflict · CollectionConflict · StateConflict · StackRunning
    ├── Unavailable           a service we need does not answer
    │   └── DatabaseUnavailable · BrokerUnavailable · StackNotRunning · MissingPart
    ├── EndpointError         one call to a model server ended badly; `code` goes into results
    │   ├── RateLimited · QuotaExhausted · Overloaded · EndpointTimeout · ConnectionFailed
    │   ├── ServerFault · BadRequest · TooLong · AuthFailed · ContentRefused · ModelMissing
    │   └── BadReply · Abandoned · BudgetSpent
    ├── LeaseLost             somebody else holds the chunk now; stop quietly
    └── KindFault             a kind's own code failed on what it was given

Errors do not know the terminal: `cli.render` maps them.
"""

from __future__ import annotations

from collections.abc import Sequence


class GivewayError(Exception):
    """Base of all. The text of every subclass is written for the person who must act."""


class UsageError(GivewayError):
    """The caller asked for something that cannot be; the message names what would be right."""


class ConfigError(UsageError):
    """A setting is unknown, misspelt or out of range."""


class BadParams(UsageError):
    """A job's parameters do not fit its kind."""


class BadSource(UsageError):
    """A source cannot be read, or has lines that are not items.

    `lines` holds one sentence a bad line, the first few of `total_bad`.
    """

    def __init__(self, message: str, lines: Sequence[str] = (), total_bad: int = 0) -> None:
        super().__init__(message)
        self.lines = tuple(lines)
        self.total_bad = total_bad


class UnknownName(UsageError):
    """A kind, policy, pool, model or format that does not exist.

    Without a `name`, `what` is the whole message: pickle and Celery make errors again from `args`.
    """

    def __init__(self, what: str, name: str | None = None, known: Sequence[str] = ()) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(what if name is None else f"no {what} {name!r}; known: {listed}")


class NotFound(UsageError):
    """A job, collection or schedule that is not in the database."""


class Conflict(UsageError):
    """What was asked clashes with what is there."""


class KeyConflict(Conflict):
    """The same job key, but another request."""


class CollectionConflict(Conflict):
    """Another model or dimension than the collection was made with."""


class StateConflict(Conflict):
    """The job is not in a state in which that can be done."""


class StackRunning(Conflict):
    """A stack already runs on this data folder."""


class Unavailable(GivewayError):
    """A service that Giveway needs does not answer."""


class DatabaseUnavailable(Unavailable):
    """Postgres does not answer."""


class BrokerUnavailable(Unavailable):
    """The broker does not answer."""


class StackNotRunning(Unavailable):
    """No database is known: no stack runs here and no URL is set."""


class MissingPart(Unavailable):
    """An optional package is not installed, or does not exist for this machine."""


class EndpointError(GivewayError):
    """One call to an endpoint ended badly.

    `code` is stable: it is stored with results and requests. `retry_after_s` is what the endpoint
    asked for, None where it said nothing. The text never holds a key or a prompt.
    """

    code = "endpoint_error"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(EndpointError):
    """429: too many requests or tokens for now."""

    code = "rate_limited"


class QuotaExhausted(EndpointError):
    """429 or 402 that waiting does not cure: the account has nothing left."""

    code = "quota_exhausted"


class Overloaded(EndpointError):
    """503 or 529: the server sheds load."""

    code = "overloaded"


class EndpointTimeout(EndpointError):
    """No answer within the deadline (connect, first byte or whole)."""

    code = "timeout"


class ConnectionFailed(EndpointError):
    """Refused, reset, or closed before the whole reply was there."""

    code = "connection"


class ServerFault(EndpointError):
    """Any other 5xx."""

    code = "server_error"


class BadRequest(EndpointError):
    """400 or 422: the server refuses the input; which item is not said."""

    code = "bad_request"


class TooLong(EndpointError):
    """An input is longer than the model takes, or the request larger than the server takes."""

    code = "too_long"


class AuthFailed(EndpointError):
    """401 or 403: the key is missing, wrong or not allowed."""

    code = "auth"


class ContentRefused(EndpointError):
    """The provider's content filter, or the model itself, refused to answer."""

    code = "content_refused"


class ModelMissing(EndpointError):
    """404: the endpoint does not serve this model."""

    code = "model_missing"


class BadReply(EndpointError):
    """A reply that cannot be right: short, doubled indices, NaN, wrong length, not JSON, no text.

    `doubtful`: it may be what was expected of the endpoint that is wrong, not the endpoint.
    """

    code = "bad_reply"

    def __init__(
        self, message: str, retry_after_s: float | None = None, *, doubtful: bool = False
    ) -> None:
        super().__init__(message, retry_after_s)
        self.doubtful = doubtful


class Abandoned(EndpointError):
    """We closed the call ourselves: its place was wanted back, or its caller is gone."""

    code = "abandoned"


class BudgetSpent(EndpointError):
    """The call was not made: the endpoint's rate budget has no room for it now.

    `retry_after_s` is when it may have; None: never, the call is larger than the whole budget.
    """

    code = "rate_budget"


class LeaseLost(GivewayError):
    """The chunk's fence has moved on. Nothing was written; stop quietly."""


class KindFault(GivewayError):
    """A kind's own code failed. The text says with what and where, and quotes no item."""
