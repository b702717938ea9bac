"""Server-sent events, put together from the bytes of a stream however they are cut.

By the HTML standard (§9.2.6), and with what model servers do besides: an event may end without an
empty line, and llama.cpp writes an error as a field of that name.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from app import errors

_LONGEST_LINE = 8 * 1024 * 1024
_KNOWN = frozenset({b"", b"data", b"event", b"error", b"id", b"retry"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its data. `name` is empty where the server gave none."""

    data: bytes
    name: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the server itself calls it an error."""
        return "error" in self.name.lower()

    @property
    def is_done(self) -> bool:
        """Whether it says that the stream is over and whole."""
        return self.data == b"[DONE]"


class Events:
    """Takes in bytes, gives events. `is_stream`: whether anything was a line of an event stream."""

    def __init__(self) -> None:
        self.is_stream = False
        self._rest = b""
        self._data: list[bytes] = []
        self._name = ""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that are whole with `chunk`. Raises BadReply for a line that has no end."""
        lines = (self._rest + chunk).splitlines(keepends=True)
        self._rest = b""
        if lines and not lines[-1].endswith(b"\n"):  # A lone CR may be half of a CRLF.
            self._rest = lines.pop()
            if len(self._rest) > _LONGEST_LINE:
                raise errors.BadReply(f"a line of the stream is longer than {_LONGEST_LINE} bytes")
        return [event for line in lines for event in self._taken(line.rstrip(b"\r\n"))]

    def end(self) -> list[Event]:
        """What is left when no more bytes come."""
        lines, self._rest = self._rest.splitlines(), b""
        found = [event for line in lines for event in self._taken(line)]
        return [*found, *self._dispatched()]

    def _taken(self, line: bytes) -> list[Event]:
        if not line:
            return self._dispatched()
        field, _, value = line.partition(b":")
        self.is_stream |= field in _KNOWN
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"error":
            self._name = "error"
            self._data.append(value)
        elif field == b"data":
            before = self._dispatched() if self._is_whole() else []
            self._data.append(value)
            return before
        return []

    def _is_whole(self) -> bool:
        """Whether the data so far is an event of its own, so that the next line is another's."""
        data = b"\n".join(self._data).strip()
        if not data:
            return False
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError:
            return data == b"[DONE]"
        return True

    def _dispatched(self) -> list[Event]:
        data, name = b"\n".join(self._data).strip(), self._name
        self._data.clear()
        self._name = ""
        # An error without data is one all the same.
        return [Event(data, name)] if data or "error" in name.lower() else []
