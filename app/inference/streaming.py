"""A completion put together from what comes in: events of a stream, or one whole answer.

Nothing here waits or knows a socket: bytes go in, and the answer or its error comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app import errors
from app.domain.cleaning import cleaned, cleaned_json, ends_in_half, joined_halves
from app.domain.endings import Said, failure_in, failure_named, failure_of
from app.domain.inference import ChatReply, ChatRequest, Usage
from app.inference.events import Event, Events
from app.inference.replies import LARGEST_REPLY, chat_usage, model_of, parsed, reason_of

_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class SoFar:
    """What has come of a completion: its text in pieces, why it ended (None: it has not), whether
    the model has reasoned before it, and the last event that told tokens."""

    pieces: list[str] = field(default_factory=list, repr=False)
    reason: str | None = None
    reasons: bool = False
    told: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    def usage(self, request: ChatRequest) -> Usage:
        """Tokens of the call by now; where the server tells none, a piece is one."""
        told = chat_usage(self.told, request, None)
        made = max(told.completion_tokens, len(self.pieces))
        return replace(told, completion_tokens=made)


class Streamed:
    """A completion put together from its events.

    `on_first_token` is called once, at the first text (or reasoning) of the model; `on_text` with
    each piece of text, clean of what no terminal shows; `so_far` holds what has come.
    """

    def __init__(
        self,
        request: ChatRequest,
        on_first_token: Callable[[], None] | None = None,
        on_text: Callable[[str], None] | None = None,
        so_far: SoFar | None = None,
    ) -> None:
        self._request = request
        self._sent = tuple(message.content for message in request.messages)
        self._on_first_token = on_first_token
        self._on_text = on_text
        self._so_far = SoFar() if so_far is None else so_far
        self._model = request.model
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._half = ""

    @property
    def is_finished(self) -> bool:
        return self._so_far.reason is not None

    @property
    def sent(self) -> Sequence[str]:
        """The texts of the request, which no error may repeat."""
        return self._sent

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event. Raises the leaf that an error in it stands for, and BadReply where it
        has not the shape of a chunk."""
        self._told(event)
        try:
            for choice in event.get("choices") or ():
                self._ends(choice)
                self._take(choice.get("delta") or {})
        except (AttributeError, TypeError, KeyError) as error:
            raise errors.BadReply("an event of the stream is no completion chunk") from error

    def whole(self, value: Mapping[str, Any]) -> ChatReply:
        """The answer that came all at once, callbacks included. Raises as `add` and `reply`."""
        self._told(value)
        try:
            choice = value["choices"][0]
            message = choice["message"]
            self._ends(choice)
            self._take(message)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise errors.BadReply("the reply has no choices[0].message.content") from error
        self.began()
        return self.reply()

    def began(self) -> None:
        """The model's first token is here."""
        if self._on_first_token is not None:
            self._on_first_token()
            self._on_first_token = None

    def reply(self) -> ChatReply:
        """What it came to. Raises ContentRefused or BadReply where that is no answer."""
        self._give(self._half, "")
        text, so_far = self._so_far.text, self._so_far
        calls = tuple(_clean(self._calls[at]) for at in sorted(self._calls))
        said = Said(text, so_far.reason, "".join(self._refusal), so_far.reasons, bool(calls))
        failure = failure_of(said, self._sent)
        may_be_silent = self._request.may_be_silent or self._request.goes_on
        if failure is not None and not (may_be_silent and isinstance(failure, errors.BadReply)):
            raise failure
        usage = chat_usage(so_far.told, self._request, text)
        return ChatReply(text, so_far.reason, usage, self._model, calls)

    def _told(self, value: Mapping[str, Any]) -> None:
        failure = failure_in(value, self._sent)
        if failure is not None:
            raise failure
        self._model = model_of(value, self._model)
        if isinstance(value.get("usage"), Mapping):
            self._so_far.told = value

    def _ends(self, choice: Mapping[str, Any]) -> None:
        self._so_far.reason = reason_of(choice.get("finish_reason")) or self._so_far.reason

    def _take(self, delta: Mapping[str, Any]) -> None:
        content = _Content.of(delta.get("content"))
        self._refusal += content.refusals
        if isinstance(delta.get("refusal"), str):
            self._refusal.append(delta["refusal"])
        self._call(delta)
        reasons = content.reasons or bool(delta.get("reasoning_content") or delta.get("reasoning"))
        self._so_far.reasons |= reasons
        text = joined_halves(self._half + content.text)
        self._half = text[-1] if ends_in_half(text) else ""
        self._give(text.removesuffix(self._half) if self._half else text, self._half)
        if reasons:
            self.began()

    def _give(self, text: str, half: str) -> None:
        """Pass `text` on; `half` a character is held back until the other half is there."""
        self._half = half
        if not text:
            return
        self.began()
        self._so_far.pieces.append(text)
        if self._on_text is not None:
            self._on_text(cleaned(text).text)

    def _call(self, delta: Mapping[str, Any]) -> None:
        """Add the pieces of calls of tools to what has come of them, each at its index."""
        pieces = delta.get("tool_calls") or []
        if isinstance(delta.get("function_call"), Mapping):  # The way before there were tools.
            pieces = [*pieces, {"type": "function", "function": delta["function_call"]}]
        for place, piece in enumerate(pieces):
            index = piece.get("index")
            at = index if isinstance(index, int) else place
            whole = self._calls.setdefault(at, {"id": None, "type": "function", "function": {}})
            whole["id"] = piece.get("id") or whole["id"]
            made = whole["function"]
            for name, given in (piece.get("function") or {}).items():
                if isinstance(given, str):
                    made[name] = made.get(name, "") + given
        if pieces:
            self.began()


class Incoming:
    """A chat's answer as its bytes come in, in whatever shape the server chose."""

    def __init__(self, streamed: Streamed) -> None:
        self._streamed = streamed
        self._events = Events()
        self._body = bytearray()
        self._is_whole: bool | None = None
        self._done = False

    def feed(self, chunk: bytes) -> bool:
        """Take in bytes; whether the answer is there, whatever may still come.

        Raises BadReply for junk, and the leaf that an error in mid-stream stands for.
        """
        if self._is_whole is None:
            self._body += chunk
            start = bytes(self._body).removeprefix(_BOM).lstrip()
            if not start or _BOM.startswith(self._body):
                return False
            self._is_whole = start[:1] in b"{["  # The server ignored `stream`.
            chunk = start
            self._body.clear()
        if self._is_whole:
            self._body += chunk
            if len(self._body) > LARGEST_REPLY:
                raise errors.BadReply(f"the reply is larger than {LARGEST_REPLY} bytes")
            return False
        return self._added(self._events.feed(chunk))

    def reply(self) -> ChatReply:
        """The answer, at the end of the body or once `feed` has said so.

        Raises ConnectionFailed for a stream without an end, and as `feed` and `Streamed.reply`.
        """
        if self._is_whole:
            return self._streamed.whole(parsed(self._body))
        if not self._done and not self._added(self._events.end()):
            if self._is_whole is False and not self._events.is_stream:
                raise errors.BadReply("the reply is neither JSON nor a stream of events")
            if not self._streamed.is_finished:
                raise errors.ConnectionFailed("the stream ended before the reply was finished")
        return self._streamed.reply()

    def _added(self, events: Sequence[Event]) -> bool:
        for event in events:
            if event.is_done:
                self._done = True
                break
            if event.is_error:
                raise failure_named(event.data, self._streamed.sent)
            self._streamed.add(parsed(event.data))
        return self._done


def _clean(call: dict[str, Any]) -> Mapping[str, Any]:
    value = cleaned_json(call).value
    assert isinstance(value, dict)
    return value


@dataclass(frozen=True, slots=True)
class _Content:
    """The `content` of a message or a delta, sorted."""

    text: str
    refusals: tuple[str, ...] = ()
    reasons: bool = False

    @classmethod
    def of(cls, content: object) -> _Content:
        """Text, nothing, or a list of parts. Raises BadReply for anything else."""
        if content is None or isinstance(content, str):
            return cls(content or "")
        parts = [content] if isinstance(content, Mapping) else content
        if not isinstance(parts, list):
            raise errors.BadReply(f"the reply's content is {type(content).__name__}, not text")
        texts, refusals, reasons = [], [], False
        for part in parts:
            match part:
                case str() | {"type": "text" | "output_text", "text": str()}:
                    texts.append(part if isinstance(part, str) else part["text"])
                case {"type": "refusal", "refusal": str(refusal)}:
                    refusals.append(refusal)
                case {"type": "thinking" | "reasoning" | "reasoning_content"}:
                    reasons = True
                case {"type": str()}:
                    pass  # A picture or a sound is no text.
                case {"text": str(text)}:
                    texts.append(text)
                case _:
                    raise errors.BadReply("a part of the reply's content is no text")
        return cls("".join(texts), tuple(refusals), reasons)
