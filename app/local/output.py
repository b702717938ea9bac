"""Where the lines go that the processes of a stack print: the terminal, files, or both."""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Protocol, TextIO

from app.clock import now
from app.logs import masked

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_TAIL_LINES = 30
_FILE_BYTES = 20_000_000


class Output(Protocol):
    """Takes one line of one process. Called from many threads."""

    def line(self, name: str, text: str) -> None:
        """`text` has no line end."""


class Terminal:
    """`name │ text`: names padded to one width, each with a colour where there is a terminal."""

    def __init__(self, stream: TextIO, names: Iterable[str]) -> None:
        self._stream = stream
        self._names = list(names)
        self._width = max((len(name) for name in self._names), default=0)
        self._coloured = stream.isatty() and not os.environ.get("NO_COLOR")
        self._lock = threading.Lock()

    def line(self, name: str, text: str) -> None:
        head = f"{name:<{self._width}} │"
        if self._coloured:
            head = f"\x1b[{self._colour(name)}m{head}\x1b[0m"
        with self._lock:
            try:
                self._stream.write(f"{head} {text}\n")
                self._stream.flush()
            except (OSError, ValueError):
                return  # the terminal is gone; the stack ends by SIGHUP, not by this

    def _colour(self, name: str) -> str:
        place = self._names.index(name) if name in self._names else -1
        return "1" if place < 0 else _COLOURS[place % len(_COLOURS)]


class LogFiles:
    """`NAME.log` for each process and `all.log`, begun anew at each start, one old one kept."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._lock = threading.Lock()

    def line(self, name: str, text: str) -> None:
        stamp = now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        with self._lock:
            self._write(name, f"{stamp} {text}\n")
            self._write("all", f"{stamp} {name}: {text}\n")

    def _write(self, name: str, line: str) -> None:
        file = self._files.get(name)
        if file is None or file.tell() > _FILE_BYTES:
            file = self._begin(name)
        file.write(line.encode(errors="replace"))

    def _begin(self, name: str) -> IO[bytes]:
        if name in self._files:
            self._files[name].close()
        path = self._folder / f"{name}.log"
        if path.exists():
            path.replace(self._folder / f"{name}.log.1")
        self._files[name] = path.open("wb", buffering=0)
        return self._files[name]

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()


class Outputs:
    """Several outputs as one. Masks secrets, and remembers the last lines of each process."""

    def __init__(self, *outputs: Output) -> None:
        self._outputs = outputs
        self._tails: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_TAIL_LINES))

    def line(self, name: str, text: str) -> None:
        if not text.strip():
            return
        text = masked(text)
        self._tails[name].append(text)
        for output in self._outputs:
            output.line(name, text)

    def tail(self, name: str) -> list[str]:
        """The last lines of a process, oldest first."""
        return list(self._tails[name])
