"""Taking in the body of a reply, whole or as it streams, within the time of its call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import httpcore2

from app import errors
from app.domain.inference import ChatReply
from app.inference.replies import LARGEST_REPLY
from app.inference.sockets import Call
from app.inference.streaming import Incoming, Streamed

_ERROR_PAGE = 64 * 1024
_DONE_S = 0.25
"""How long the end of a stream may lag behind its [DONE]; waiting saves the connection."""


def read_chat(response: httpcore2.Response, call: Call, streamed: Streamed) -> ChatReply:
    """The completion in `response`, put together by `streamed`.

    Raises BadReply for junk, ConnectionFailed for a stream without an end, and the leaf that an
    error in mid-stream stands for.
    """
    chunks, incoming = _chunks(response, call), Incoming(streamed)
    for chunk in chunks:
        if incoming.feed(chunk):
            _finish(chunks, call)
            break
    return incoming.reply()


def _finish(chunks: Iterator[bytes], call: Call) -> None:
    """Read to the end of the body, so that the connection serves again; the reply is there."""
    call.hurry(_DONE_S)
    with contextlib.suppress(errors.EndpointError, httpcore2.RemoteProtocolError):
        for _ in chunks:
            pass


def _chunks(response: httpcore2.Response, call: Call) -> Iterator[bytes]:
    for chunk in response.iter_stream():
        call.answered()
        yield chunk


def whole(response: httpcore2.Response, call: Call) -> bytearray:
    """The body. Raises BadReply where it is larger than any reply should be."""
    body = bytearray()
    for chunk in _chunks(response, call):
        body += chunk
        if len(body) > LARGEST_REPLY:
            raise errors.BadReply(f"the reply is larger than {LARGEST_REPLY} bytes")
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
