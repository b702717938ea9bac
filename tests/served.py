"""A simulated endpoint as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class Served:
    """A simulated endpoint that runs. `url` ends in /v1."""

    url: str
    process: subprocess.Popen[str]
    client: httpx2.Client

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    def ledger(self) -> dict[str, Any]:
        return self.client.get(f"{self.root}/ledger").json()

    def order(self, *faults: dict[str, Any]) -> None:
        answer = self.client.post(f"{self.root}/faults", json=list(faults))
        assert answer.status_code == 200, answer.text

    def order_none(self) -> None:
        self.client.delete(f"{self.root}/faults")

    def calm(self) -> None:
        self.order_none()
        self.client.post(f"{self.root}/ledger/reset")


@contextlib.contextmanager
def serving(*flags: str) -> Iterator[Served]:
    """A simulated endpoint on a free port, ended by its pid."""
    command = [sys.executable, "-m", "app.inference.simulated", "--port", "0", *flags]
    with (
        httpx2.Client(timeout=20) as client,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on "), line
            yield Served(line.split()[-1], process, client)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
                process.wait(5)
