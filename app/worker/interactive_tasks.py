"""`giveway.interactive.chat` and `.embed`: somebody waits for the result.

Prompts travel in the message, since any Celery producer may send one; they reach neither events
nor logs: the worker shows facts in their place, and so does the reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery import Celery, Task
from celery.worker.request import Request

from app import clock
from app.domain.cleaning import cleaned
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, Message
from app.domain.requests import NewRequest, checked_priority
from app.errors import BadParams
from app.wiring import Wiring

if TYPE_CHECKING:
    from app.services.people.tickets import Answered

_SHOWN = (
    "model",
    "max_tokens",
    "user",
    "priority",
    "submitted_at",
    "deadline_s",
    "deadline_at",
)
_LONGEST_S = 86_400.0
_MOST_TOKENS = 10_000_000


def facts(kwargs: dict[str, Any]) -> str:
    """What may be seen of a request's arguments: everything but texts."""
    return repr({name: kwargs[name] for name in _SHOWN if kwargs.get(name) is not None})


class Discreet(Request):
    """A request whose events and logs show no prompt, whoever sent it."""

    @property
    def argsrepr(self) -> str:
        """Positional arguments may be anything; none is shown."""
        return "()"

    @property
    def kwargsrepr(self) -> str:
        """Facts only."""
        return facts(self.kwargs if isinstance(self.kwargs, dict) else {})

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """A thread cannot be ended, and a process serves others: `revoking` closes the call."""


class InteractiveTask(Task):
    """Late acknowledgement: a killed worker's request is delivered again."""

    Request = Discreet
    acks_late = True
    ignore_result = False
    track_started = False  # One who waits asks for the answer, not for how far it is.
    resultrepr_maxsize = 256


class Reply:
    """A result that is JSON to the caller and facts to everybody else."""

    def __init__(self, answered: Answered, content: dict[str, Any]) -> None:
        usage = answered.reply.usage
        self._facts: dict[str, Any] = {
            "model": answered.reply.model,
            "endpoint": answered.endpoint,
            "role": answered.choice.role,
            "degraded": answered.degraded,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "rough_tokens": usage.rough,
            "queue_ms": round(answered.queue_ms, 1),
            "first_token_ms": answered.first_token_ms and round(answered.first_token_ms, 1),
            "total_ms": round(answered.total_ms, 1),
        }
        self._content = content

    def __json__(self) -> dict[str, Any]:
        """All of it, for the result backend."""
        return self._content | self._facts

    def __repr__(self) -> str:
        return repr(self._facts)


def register(app: Celery, wiring: Wiring) -> None:
    """Both tasks."""

    @app.task(name="giveway.interactive.chat", base=InteractiveTask, bind=True)
    def chat(
        self: Task,
        prompt: str | None = None,
        *,
        messages: list[dict[str, str]] | None = None,
        model: str,
        max_tokens: int | None = None,
        temperature: float | None = None,
        user: str | None = None,
        priority: int = 0,
        submitted_at: float | None = None,
        deadline_s: float | None = None,
        deadline_at: float | None = None,
    ) -> Reply:
        """Answer `prompt`, or `messages` as OpenAI has them.

        `submitted_at` is the epoch second at which the person asked, where the sender knows it.
        `priority` is 0 to 9, the higher first. The answer is wanted within `deadline_s` of that
        moment, or before the epoch second `deadline_at`.
        """
        asked = ChatRequest(model, _turns(prompt, messages), max_tokens, temperature)
        times = _times(submitted_at, deadline_s, deadline_at)
        new = _new(self.request.id, wiring, "chat", model, times, user, priority, max_tokens)
        answered = wiring.interactive.run(new, asked)
        assert isinstance(answered.reply, ChatReply)
        return Reply(answered, _content(answered.reply))

    @app.task(name="giveway.interactive.embed", base=InteractiveTask, bind=True)
    def embed(
        self: Task,
        texts: list[str] | str,
        *,
        model: str,
        user: str | None = None,
        priority: int = 0,
        submitted_at: float | None = None,
        deadline_s: float | None = None,
        deadline_at: float | None = None,
    ) -> Reply:
        """Vectors of `texts`, in their order."""
        listed = _texts(texts)
        times = _times(submitted_at, deadline_s, deadline_at)
        new = _new(self.request.id, wiring, "embed", model, times, user, priority, None)
        answered = wiring.interactive.run(new, EmbedRequest(model, listed))
        assert isinstance(answered.reply, EmbedReply)
        return Reply(answered, {"vectors": answered.reply.vectors.tolist()})


def _content(reply: ChatReply) -> dict[str, Any]:
    """An answer, clean of what no terminal or database takes; `cleaned` says what was changed."""
    text = cleaned(reply.text)
    content: dict[str, Any] = {"text": text.text, "finish_reason": reply.finish_reason}
    if text.flags:
        content["cleaned"] = ",".join(sorted(text.flags))
    if reply.tool_calls:
        content["tool_calls"] = list(reply.tool_calls)
    return content


def _turns(prompt: str | None, messages: list[dict[str, str]] | None) -> tuple[Message, ...]:
    if (prompt is None) == (messages is None):
        raise BadParams("give either prompt or messages")
    if messages is None:
        if not isinstance(prompt, str):
            raise BadParams(f"prompt must be a text, not {type(prompt).__name__}")
        return (Message("user", cleaned(prompt).text),)
    try:
        return tuple(
            Message(str(turn["role"]), cleaned(str(turn["content"])).text) for turn in messages
        )
    except (TypeError, KeyError):
        raise BadParams("each of messages must be an object with role and content") from None


def _texts(texts: list[str] | str) -> tuple[str, ...]:
    """Texts as JSON can say them: half a character in one must not fail whoever shares its call."""
    if not isinstance(texts, str | list | tuple):
        raise BadParams(f"texts must be a text or a list of texts, not {type(texts).__name__}")
    listed = (texts,) if isinstance(texts, str) else tuple(texts)
    if not listed:
        raise BadParams("texts must hold at least one text")
    if not all(isinstance(one, str) for one in listed):
        raise BadParams("each of texts must be a text")
    return tuple(cleaned(one).text for one in listed)


def _times(
    submitted_at: float | None, deadline_s: float | None, deadline_at: float | None
) -> tuple[datetime, datetime | None]:
    """When the person asked, and until when they want the answer; None: they did not say."""
    now = clock.now()
    asked_at = now
    if submitted_at is not None:
        # A sender whose clock is ahead of ours cannot have asked in the future.
        asked_at = min(now, _moment("submitted_at", submitted_at))
        asked_at = max(asked_at, now - timedelta(hours=1))
    if deadline_s is not None and deadline_at is not None:
        raise BadParams("give either deadline_s or deadline_at")
    if deadline_at is not None:
        return asked_at, _moment("deadline_at", deadline_at)
    if deadline_s is None:
        return asked_at, None
    if not _is_number(deadline_s) or not 0 < deadline_s <= _LONGEST_S:
        raise BadParams(
            f"deadline_s must be a number of seconds above 0 and at most {_LONGEST_S:g}, "
            f"not {deadline_s!r}"
        )
    return asked_at, asked_at + timedelta(seconds=deadline_s)


def _moment(name: str, epoch_s: float) -> datetime:
    try:
        return datetime.fromtimestamp(epoch_s, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise BadParams(f"{name} must be seconds since 1970, not {epoch_s!r}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _most_tokens(given: int | None) -> int | None:
    """A number that servers and our own rows can take. None: as many as the server likes."""
    is_whole = isinstance(given, int) and not isinstance(given, bool)
    if given is not None and not (is_whole and 1 <= given <= _MOST_TOKENS):
        raise BadParams(
            f"max_tokens must be a whole number from 1 to {_MOST_TOKENS:,}, not {given!r}"
        )
    return given


def _new(
    task_id: str,
    wiring: Wiring,
    task_type: str,
    model: str,
    times: tuple[datetime, datetime | None],
    user: str | None,
    priority: int,
    max_tokens: int | None,
) -> NewRequest:
    submitted_at, deadline_at = times
    return NewRequest(
        id=as_uuid(task_id),
        pool=wiring.interactive.pool_for(model),
        task_type=task_type,
        model=model,
        submitted_at=submitted_at,
        user_id=None if user is None else cleaned(str(user)).text,
        priority=checked_priority(priority),
        max_tokens=_most_tokens(max_tokens),
        deadline_at=deadline_at,
    )


def as_sent(wiring: Wiring, task: str, task_id: str, sent: Mapping[str, Any]) -> NewRequest:
    """The request of a message whose task has not begun, by its keyword arguments.

    BadParams, UnknownName: what the task itself would have raised.
    """
    times = _times(sent.get("submitted_at"), sent.get("deadline_s"), sent.get("deadline_at"))
    return _new(
        task_id,
        wiring,
        task.rpartition(".")[2],
        str(sent.get("model")),
        times,
        sent.get("user"),
        sent.get("priority", 0),
        sent.get("max_tokens"),
    )


def as_uuid(task_id: str) -> uuid.UUID:
    """Celery's ids are UUIDs; a sender's own words are made into one."""
    try:
        return uuid.UUID(task_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, task_id)
