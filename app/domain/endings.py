"""How an answer that came with status 200 ended: well, with an error in its body, or with nothing.

A success has text, or a call of a tool. A refusal and everything else has a code. The shapes of
errors known are those of OpenAI, Azure, Anthropic, Google, vLLM, SGLang, TGI, TEI, FastChat,
llama.cpp, Ollama, FastAPI and OpenRouter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app import errors
from app.domain.cleaning import is_blank
from app.domain.replies import classified, safe_message, status_in

_MARKS = ("error", "errors", "error_type", "error_message", "error_code")
_SENTENCES = ("message", "detail", "msg")
_NO_HEADERS_AT = datetime(1970, 1, 1, tzinfo=UTC)
"""Now, where there are no headers whose dates it could be compared with."""

_FILTERED = re.compile(
    r"content.?filter|refusal|safety|sensitive|blocklist|prohibited|recitation|guardrail",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(r"overload|insufficient_system_resource", re.IGNORECASE)
_LIMITED = re.compile(r"rate.?limit", re.IGNORECASE)
_FAILED = re.compile(r"error|abort|fail|cancel|disconnect", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said in a whole answer. `reason`: the server's word for why it ended, None: it
    gave none. `reasoned`: it thought before, which is no answer. `called`: it called a tool."""

    text: str
    reason: str | None = None
    refusal: str = ""
    reasoned: bool = False
    called: bool = False


def failure_in(value: Mapping[str, Any], sent: Sequence[str] = ()) -> errors.EndpointError | None:
    """The error that the body of a 200, or an event of a stream, stands for; None: it is none.

    `sent` are the texts of the request, which no error may repeat.
    """
    if _is_failure(value):
        return _classified(value, sent)
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, Mapping):
            continue
        if choice.get("error"):
            return _classified({"error": choice["error"]}, sent)
        reason = choice.get("finish_reason")
        if isinstance(reason, Mapping) and _FAILED.search(str(reason.get("type"))):
            return _classified({"error": reason}, sent)
        if isinstance(reason, str) and (failure := _ended_by(reason)) is not None:
            return failure
    return None


def failure_named(data: bytes, sent: Sequence[str] = ()) -> errors.EndpointError:
    """The error that the data of an event stands for which its server calls an error itself."""
    return _classified(data, sent)


def failure_of(said: Said, sent: Sequence[str] = ()) -> errors.EndpointError | None:
    """What is wrong with an answer that says no more than this; None: it is a success."""
    if said.refusal.strip():
        told = safe_message(said.refusal, sent)
        return errors.ContentRefused("the model refused" + (f": {told}" if told else ""))
    if said.called or not is_blank(said.text):
        return None
    if said.reason is not None and _FILTERED.search(said.reason):
        return errors.ContentRefused(f"the answer was held back ({said.reason})")
    why = "" if said.reason is None else f" ({said.reason})"
    if said.reasoned:
        told = f"the model reasoned and gave no text{why}; give it more tokens"
        return errors.BadReply(told, doubtful=True)
    return errors.BadReply(f"the answer ended without any text{why}")


def _is_failure(value: Mapping[str, Any]) -> bool:
    if any(value.get(mark) for mark in _MARKS):
        return True
    if value.get("object") == "error" or value.get("type") == "error":
        return True
    answers = any(isinstance(value.get(name), list) for name in ("choices", "data"))
    return not answers and any(
        isinstance(value.get(name), str | list) and value[name] for name in _SENTENCES
    )


def _ended_by(reason: str) -> errors.EndpointError | None:
    """The error that a word for the end stands for, whatever came before it."""
    told = f"the endpoint ended its answer with {safe_message(reason) or 'an error'}"
    if _OVERLOADED.search(reason):
        return errors.Overloaded(told)
    if _LIMITED.search(reason):
        return errors.RateLimited(told)
    return errors.ServerFault(told) if _FAILED.search(reason) else None


def _classified(body: bytes | Mapping[str, Any], sent: Sequence[str]) -> errors.EndpointError:
    return classified(status_in(body), body, {}, now=_NO_HEADERS_AT, sent=sent)
