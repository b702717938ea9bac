"""Taking in the body of a reply, whole or as it streams, within the time of its call."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpcore2

from app import clock, errors
from app.domain.inference import ChatReply
from app.domain.replies import classified
from app.inference.replies import Streamed, event_data, parsed
from app.inference.sockets import Call

_LARGEST_REPLY = 512 * 1024 * 1024
_ERROR_PAGE = 64 * 1024
_DONE_S = 0.25
"""How long the end of a stream may lag behind its [DONE]; waiting saves the connection."""


def read_chat(
    response: httpcore2.Response, call: Call, streamed: Streamed, sent: Sequence[str]
) -> ChatReply:
    """The completion in `response`, put together by `streamed`; `sent` are the request's texts.

    Raises BadReply for junk, ConnectionFailed for a stream without an end, and the leaf that an
    error in mid-stream stands for.
    """
    chunks = _chunks(response, call)
    first = next((chunk for chunk in chunks if chunk.strip()), b"")
    if first.lstrip()[:1] == b"{":  # The server ignored `stream`.
        return streamed.whole(parsed(_gathered(itertools.chain((first,), chunks))))
    for data in event_data(itertools.chain((first,), chunks)):
        if data == b"[DONE]":
            _finish(chunks, call)
            return streamed.reply()
        event = parsed(data)
        if event.get("error"):
            raise classified(_status_in(event), event, {}, now=clock.now(), sent=sent)
        streamed.add(event)
    if not streamed.is_finished:
        raise errors.ConnectionFailed("the stream ended before the reply was finished")
    return streamed.reply()


def _finish(chunks: Iterator[bytes], call: Call) -> None:
    """Read to the end of the body, so that the connection serves again; the reply is there."""
    call.hurry(_DONE_S)
    with contextlib.suppress(errors.EndpointError, httpcore2.RemoteProtocolError):
        for _ in chunks:
            pass


def _status_in(event: Mapping[str, Any]) -> int:
    """The status that an error in mid-stream would have had."""
    error = event["error"]
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def _chunks(response: httpcore2.Response, call: Call) -> Iterator[bytes]:
    for chunk in response.iter_stream():
        call.answered()
        yield chunk


def whole(response: httpcore2.Response, call: Call) -> bytearray:
    """The body. Raises BadReply where it is larger than any reply should be."""
    return _gathered(_chunks(response, call))


def _gathered(chunks: Iterable[bytes]) -> bytearray:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > _LARGEST_REPLY:
            raise errors.BadReply(f"the reply is larger than {_LARGEST_REPLY} bytes")
    return body


def error_page(response: httpcore2.Response, call: Call) -> bytes:
    """The start of an error's body. Cut off or not, the status has told what matters."""
    page = bytearray()
    with contextlib.suppress(errors.ConnectionFailed, httpcore2.RemoteProtocolError):
        for chunk in _chunks(response, call):
            page += chunk
            if len(page) > _ERROR_PAGE:
                break
    return bytes(page)
