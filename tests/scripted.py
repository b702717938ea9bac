"""A model server whose every answer is a function of the request: for what the simulated endpoint
cannot be ordered to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass(frozen=True)
class Says:
    """One answer. A `body` of bytes goes out as it is, anything else as JSON."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Mapping[str, Any]], Says]


class Scripted:
    """The server. `asked` holds the bodies of all POST requests, in the order they came."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def at(self, name: str = "sim", **more: Any) -> dict[str, Any]:
        """Its declaration."""
        base = {"name": name, "base_url": self.url, "models": ["fake-chat", "fake-embed"]}
        return {**base, "max_concurrency": 32, **more}

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@contextmanager
def scripted(answer: Answer) -> Iterator[Scripted]:
    """A server for the block."""
    one = Scripted(answer)
    try:
        yield one
    finally:
        one.close()


def vectors(body: Mapping[str, Any], **usage: Any) -> Says:
    """Vectors of four numbers for what was asked, and this usage."""
    data = [{"index": n, "embedding": [1.0, 2.0, 3.0, float(n)]} for n in range(len(body["input"]))]
    return Says(body={"data": data, "model": body["model"], "usage": usage or None})


def _handler(server: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
            server.asked.append(body)
            self._say(server.answer(body))

        def do_GET(self) -> None:
            known = self.path.endswith("/models")
            self._say(Says(body={"data": [{"id": "fake-chat"}]}) if known else Says(404))

        def _say(self, said: Says) -> None:
            content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"content-type": "application/json", **said.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
