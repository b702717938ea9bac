"""What an unhappy HTTP reply of a model server means: one leaf of `EndpointError` each.

The bodies known are those of OpenAI, Azure, Anthropic, vLLM, SGLang, TEI, Ollama, llama.cpp and
FastAPI. The text of the error is made of the status, the server's short type or code, and at most
120 characters of its message, from which anything that could repeat the input is dropped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from app import errors
from app.domain.cleaning import cleaned
from app.logs import masked

LONGEST_RETRY_AFTER_S = 3600.0
"""A server that asks for more is asked again after an hour all the same."""

_MESSAGE_CHARS = 120
_SHORT = re.compile(r"^[A-Za-z0-9_.:/-]{1,60}$")

_QUOTA = re.compile(
    r"insufficient[_ ](quota|balance|credit)|billing|exceeded your current quota"
    r"|credit balance is too low|quota_exhausted|payment",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length|string_above_max_length|exceed_context|max_tokens_per_request"
    r"|(context|model|sequence) length|context (window|size)|max_model_len"
    r"|(input|prompt|request|payload|entity|body|text)s?( is| are)? too (long|large)"
    r"|too (many tokens|long)|tokens per request|must have less than \d+ tokens"
    r"|maximum allowed batch size|reduce the length",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content_?(filter|policy)|responsibleaipolicy|content management policy|usage policies"
    r"|safety (system|filter)|moderation_blocked",
    re.IGNORECASE,
)
_MODEL = re.compile(r"model_not_found|model\b.{0,80}\b(not found|does not exist)", re.IGNORECASE)

# A server that repeats the input does so in quotes or brackets, or after one of these words.
_QUOTED = re.compile(
    r"\"[^\"]{25,}(\"|$)|'[^']{25,}('|$)|`[^`]{25,}(`|$)|[\[{].{25,}([\]}]|$)", re.DOTALL
)
_ECHO = re.compile(
    r"\b(inputs?|prompt|received|got|given|value|content|text|messages?)\s*[:=].*",
    re.IGNORECASE | re.DOTALL,
)
_WINDOW = 16


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a server said, in its own words: `code` and `type` are empty where it gave none."""

    code: str = ""
    type: str = ""
    message: str = ""


def classified(
    status: int,
    body: bytes | Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    now: datetime,
    sent: Sequence[str] = (),
) -> errors.EndpointError:
    """The error that a reply with `status` and `body` stands for. To be raised by the caller.

    `now` (aware) turns a Retry-After date into seconds. `sent` holds the texts of the request: a
    message that repeats a piece of one is dropped.
    """
    said = complaint(body)
    leaf = _leaf(status, said)
    told = "" if leaf is errors.AuthFailed else safe_message(said.message, sent)
    words = [word for word in (said.code, said.type) if word and word != str(status)]
    text = f"the endpoint answered {status}"
    if words:
        text += f" ({', '.join(dict.fromkeys(masked(word) for word in words))})"
    if told:
        text += f": {told}"
    return leaf(text, retry_after_s(headers, now))


def complaint(body: bytes | Mapping[str, Any]) -> Complaint:
    """The code, type and message in an error body, whichever server wrote it."""
    parsed = _opened(body)
    if isinstance(parsed, str):
        return Complaint(message=parsed)
    if not isinstance(parsed, Mapping):
        return Complaint()
    inner = _innermost(parsed)
    if isinstance(inner, str):  # TEI, TGI, Ollama
        code = parsed.get("error_code", parsed.get("code"))
        return Complaint(_short(code), _short(parsed.get("error_type")), inner)
    policy = inner.get("innererror")
    kind = policy.get("code") if isinstance(policy, Mapping) else _first(inner, _TYPES)
    code, message = _first(inner, ("code", "error_code")), _first(inner, _MESSAGES)
    return Complaint(_short(code), _short(kind), _sentence(message))


_TYPES = ("type", "error_type", "err_type", "status")
_MESSAGES = ("message", "error_message", "error_msg", "msg", "detail")
_STATUSES = ("code", "status", "status_code", "statusCode", "http_status", "error_code")
_WHOLE = re.compile(r"^\s*([45]\d\d)\b")

# What a word for an error means where no status is told: mid-stream there is none.
_MEANT: tuple[tuple[int, re.Pattern[str]], ...] = (
    (429, re.compile(r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl", re.I)),
    (503, re.compile(r"overload|unavailable|server.?(is )?busy|at capacity", re.I)),
    (408, re.compile(r"^timeout|request.?timeout|timed.?out|deadline.?exceeded", re.I)),
    (401, re.compile(r"unauthori[sz]ed|unauthenticated|authentication|invalid.?api.?key"
                     r"|permission.?(denied|error)", re.I)),
    (404, re.compile(r"not.?found.?error|^not.?found$", re.I)),
    (400, re.compile(r"invalid.?(request|argument|prompt|input|value)|bad.?request|validation"
                     r"|unprocessable", re.I)),
)  # fmt: skip
_IN_WORDS = frozenset({429, 503})
"""What a sentence may mean too; in a sentence the other words stand for anything."""


def status_in(body: bytes | Mapping[str, Any]) -> int:
    """The status that an error which came with 200 would have had: the one it tells, as a number
    or as text, the one its words mean, or 500."""
    parsed = _opened(body)
    said = complaint(body)
    if isinstance(parsed, Mapping):
        inner = _innermost(parsed)
        told = [one for one in (inner, parsed) if isinstance(one, Mapping)]
        for value in (one.get(name) for one in told for name in _STATUSES):
            status = _status(value)
            if status is not None:
                return status
    words = f"{said.code} {said.type} {said.message}"
    if _QUOTA.search(words):
        return 429
    if any(known.search(words) for known in (_REFUSED, _TOO_LONG, _MODEL)):
        return 400
    for status, meant in _MEANT:
        if meant.search(said.code) or meant.search(said.type):
            return status
    for status, meant in _MEANT:
        if status in _IN_WORDS and meant.search(said.message):
            return status
    return 500


def _status(value: object) -> int | None:
    """`value` as the status of an error; None: it is none."""
    if isinstance(value, str):
        found = _WHOLE.match(value)
        return int(found[1]) if found else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 400 <= value < 600:
        return int(value)
    return None


def _opened(body: bytes | Mapping[str, Any]) -> object:
    """What a body says in JSON, or its words where it is none; Google wraps errors in a list."""
    parsed: object = body
    if isinstance(body, bytes):
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            return _plain(body)
    return parsed[0] if isinstance(parsed, list) and parsed else parsed


def _innermost(parsed: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The part of an error body that tells what is wrong: gateways wrap what they were told."""
    inner: Mapping[str, Any] = parsed
    for _ in range(3):
        below = inner.get("error") or inner.get("errors")
        if isinstance(below, list) and below:
            below = below[0]
        if isinstance(below, str):
            return below
        if not isinstance(below, Mapping):
            break
        inner = below
    return inner


def _first(value: Mapping[str, Any], names: Sequence[str]) -> object:
    return next((value[name] for name in names if value.get(name) not in (None, "")), "")


def safe_message(message: str, sent: Sequence[str] = ()) -> str:
    """At most 120 characters of `message`, without keys, without what repeats the input and without
    what Postgres refuses."""
    message = cleaned(message).text
    text = " ".join(_ECHO.sub("", _QUOTED.sub("…", masked(message))).split())
    text = text if len(text) <= _MESSAGE_CHARS else text[: _MESSAGE_CHARS - 1] + "…"
    return "" if _repeats(text, sent) else text


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the server asks us to wait; None where it says nothing that makes sense.

    Reads `retry-after-ms` and `Retry-After` (seconds or an HTTP date, RFC 9110 §10.2.3). A date
    gone by is 0; a negative number makes no sense; more than an hour is an hour.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    millis = _number(lower.get("retry-after-ms"))
    if millis is not None:
        return min(millis / 1000, LONGEST_RETRY_AFTER_S)
    asked = lower.get("retry-after")
    seconds = _number(asked)
    if seconds is None and asked is not None:
        seconds = _until(asked, now)
    return None if seconds is None else min(seconds, LONGEST_RETRY_AFTER_S)


def _leaf(status: int, said: Complaint) -> type[errors.EndpointError]:  # noqa: PLR0912 - a table of cases
    words = f"{said.code} {said.type} {said.message}"
    match status:
        case 401 | 403 if not _REFUSED.search(f"{said.code} {said.type}"):
            return errors.AuthFailed
        case 402:
            return errors.QuotaExhausted
        case 404 | 405 | 410 | 501:
            return errors.ModelMissing
        case 408:
            return errors.EndpointTimeout
        case 413:
            return errors.TooLong
        case 429 if _QUOTA.search(words):
            return errors.QuotaExhausted
        case 429 if said.message.lower().startswith("request too large"):
            # OpenAI: one request over the tokens a minute. Waiting does not make it smaller.
            return errors.TooLong
        case 429 if said.type.lower() == "overloaded":  # TEI
            return errors.Overloaded
        case 429:
            return errors.RateLimited
        case 503 | 529:
            return errors.Overloaded
        case 424:  # TEI: its model process failed
            return errors.ServerFault
        case _ if 300 <= status < 400:
            return errors.BadReply
        case _ if status >= 500:
            # llama.cpp and Ollama answer 500 to an input that is too long.
            return errors.TooLong if _TOO_LONG.search(words) else errors.ServerFault
        case _ if status < 400:
            return errors.ServerFault
    if _QUOTA.search(words):
        return errors.QuotaExhausted
    if _REFUSED.search(words):
        return errors.ContentRefused
    if _TOO_LONG.search(words):
        return errors.TooLong
    if _MODEL.search(words):
        return errors.ModelMissing
    return errors.BadRequest


def _plain(body: bytes) -> str:
    """The words of a body that is not JSON; a page of HTML says nothing worth keeping."""
    text = body[:2000].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text


def _short(value: object) -> str:
    """A code or type as a word; empty for what is no word, which might be anything."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if _SHORT.match(text) else ""


def _sentence(message: object) -> str:
    """FastAPI sends a list of findings, each with the refused input; keep what it says of them."""
    if isinstance(message, str):
        return message
    if isinstance(message, Mapping):
        return _sentence(message.get("detail", message.get("message", "")))
    if isinstance(message, list):
        found = [item.get("msg") for item in message if isinstance(item, Mapping)]
        return "; ".join(text for text in found if isinstance(text, str))
    return ""


def _repeats(text: str, sent: Sequence[str]) -> bool:
    windows = {text[at : at + _WINDOW] for at in range(len(text) - _WINDOW + 1)}
    for whole in sent:
        shown = " ".join(whole.split())
        if 4 <= len(shown) <= _WINDOW and shown in text:
            return True
        if any(window in shown for window in windows):
            return True
    return False


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str, now: datetime) -> float | None:
    try:
        at = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
