"""A whole stack, as a person starts it, for stories that span it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from app.local.state import StackState, running_state
from tests.served import Served
from tests.waiting import counted, started, until

CONFIG = """
[[pools]]
name = "main"
total = 8
batch_min = 1
batch_max = 7
target_p95_ms = 500

[[endpoints]]
name = "gpu-a"
pool = "main"
base_url = "{url}"
models = ["fake-chat", "fake-embed"]
max_concurrency = 8
"""

_STANDING = """
    SELECT j.state, coalesce(sum(c.ok + c.unchanged + c.empty), 0)
    FROM jobs j LEFT JOIN chunks c ON c.job_id = j.id WHERE j.key = %s GROUP BY j.id
"""


class Stack:
    """`giveway` on one folder. `more` are environment variables of every command."""

    def __init__(
        self, folder: Path, endpoint: Served, prepared: Path | None = None, **more: str
    ) -> None:
        """`prepared` is a data folder whose database is made and migrated, to be copied."""
        self.folder = folder
        self.endpoint = endpoint
        self.config = folder / "giveway.toml"
        self.config.write_text(CONFIG.format(url=endpoint.url))
        self.data = folder / "data"
        if prepared is not None:
            subprocess.run(["cp", "-a", str(prepared), str(self.data)], check=True)
        self._database_url: str | None = None
        self.environment = {
            **os.environ,
            "GIVEWAY_CONFIG": str(self.config),
            "GIVEWAY_DATA": str(self.data),
            **more,
        }

    def run(self, *arguments: str, within_s: float = 120, stdin: str | None = None) -> Any:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "app.cli.main", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=within_s,
            check=False,
        )

    def json(self, *arguments: str, within_s: float = 120) -> Any:
        """The document that a command prints."""
        done = self.run(*arguments, "--json", within_s=within_s)
        assert done.stdout, f"{arguments}: {done.returncode}\n{done.stderr}"
        return json.loads(done.stdout)

    def up(self) -> None:
        """Start, and wait until it is ready."""
        with counted("stack starts"):
            done = self.run("up", "--detach")
        assert done.returncode == 0, done.stdout + done.stderr
        started["stacks"] += 1

    def down(self) -> None:
        """Stop; nothing of it is left."""
        self.run("down")

    @property
    def state(self) -> StackState:
        """What the supervisor has written down: who runs, and how to reach it."""
        found = running_state(self.data)
        assert found is not None, f"no stack runs on {self.data}"
        return found

    @property
    def is_ready(self) -> bool:
        """Whether everything has been up once."""
        found = running_state(self.data)
        return found is not None and found.ready

    @property
    def database_url(self) -> str:
        """Where the rows are; the same for as long as the folder is."""
        if self._database_url is None:
            self._database_url = self.state.addresses.database_url
            assert self._database_url is not None
        return self._database_url

    def pids(self) -> dict[str, int]:
        """Process ids by name, those that run."""
        return {one.name: one.birth.pid for one in self.state.processes if one.birth}

    def is_up(self, name: str, since: int) -> bool:
        """Whether a process of this name is ready that is not `since`."""
        one = next(one for one in self.state.processes if one.name == name)
        return one.state == "running" and one.birth is not None and one.birth.pid != since

    def kill(self, name: str) -> None:
        """kill -9 one process, and wait until the supervisor has it back."""
        before = self.pids()[name]
        os.kill(before, signal.SIGKILL)
        until(lambda: self.is_up(name, before), 30, f"the return of {name}")

    def kill_all(self) -> None:
        """kill -9 the supervisor and everything under it, at once."""
        supervisor = psutil.Process(self.state.supervisor.pid)
        family = [*supervisor.children(recursive=True), supervisor]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=10)

    def submit(self, file: Path, key: str, collection: str = "docs") -> Any:
        """Submit an embed job; the document."""
        return self.json(
            *("submit", "embed", str(file), "--id-field", "id", "--text-field", "text"),
            *("--collection", collection, "--model", "fake-embed", "--key", key),
        )

    def job(self, key: str) -> Any:
        """`jobs show`."""
        return self.json("jobs", "show", key)

    def standing(self, key: str) -> tuple[str, int]:
        """(state, items done), straight from the rows: asking costs the stack next to nothing.

        ("unknown", -1) while the database is away.
        """
        import psycopg

        try:
            with psycopg.connect(self.database_url, connect_timeout=5) as connection:
                row = connection.execute(_STANDING, (key,)).fetchone()
        except psycopg.OperationalError:
            return ("unknown", -1)
        return ("unknown", -1) if row is None else (row[0], int(row[1]))

    def done(self, key: str) -> int:
        """Items done; -1 while the database is away."""
        return self.standing(key)[1]

    def wait_done(self, key: str, count: int, within_s: float = 120) -> None:
        """Wait until `count` items are done."""
        until(lambda: self.done(key) >= count, within_s, f"{count} items of {key}")

    def wait_completed(self, key: str, within_s: float = 180) -> Any:
        """Wait until the job has completed; its document."""
        ends = ("completed", "failed", "cancelled")
        until(lambda: self.standing(key)[0] in ends, within_s, f"the end of {key}")
        return self.job(key)

    def query(self, sql: str) -> Any:
        """One value from the stack's database."""
        import psycopg

        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(sql).fetchone()  # type: ignore[arg-type]
            assert row is not None
            return row[0]


def documents(file: Path, count: int) -> Path:
    """`count` JSONL lines of short texts, all different."""
    with file.open("w") as out:
        for n in range(count):
            text = f"document {n} speaks of subject {n % 113} and of {n * 7 % 1009} other things"
            out.write(json.dumps({"id": f"d{n}", "text": text}) + "\n")
    return file
