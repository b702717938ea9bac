"""Somebody else's server: takes POSTs, answers as it is told, and remembers what came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hooked:
    """`answers` are given in turn, the last one for ever: (status, more headers)."""

    url: str = ""
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(204, {})])
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def hooked() -> Iterator[Hooked]:
    """Listens on a free port of this machine."""
    told = Hooked()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            told.came.append(({k.lower(): v for k, v in self.headers.items()}, content))
            status, headers = told.answers.pop(0) if len(told.answers) > 1 else told.answers[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
