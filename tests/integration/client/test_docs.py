"""The snippets of docs/howto/client.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import Processes
from tests.rig import MakeRig
from tests.served import Served

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "client.md"


@pytest.mark.slow
def test_every_snippet_of_the_page_runs(
    tmp_path: Path,
    migrated_url: str,
    fresh_broker_url: str,
    endpoint: Served,
    rig: MakeRig,
) -> None:
    rig()
    processes = Processes(tmp_path, migrated_url, fresh_broker_url, endpoint.url)
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(snippets) == 6
    try:
        workers = [processes.worker(queue) for queue in ("interactive", "batch", "control")]
        for worker in workers:
            worker.ready()
        processes.beat()
        said = []
        for snippet in snippets:
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", snippet],
                env={**_environment(), **processes.environment},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            said.append(done.stdout)
    finally:
        processes.end()
    assert said[0].startswith("2 vectors\n")
    assert said[1] == "a done\n"
    assert "(2, " in said[2]
    assert said[3] == "10\n"
    assert said[4].strip()
    assert said[5] == "later-2026-11-30\n"


def _environment() -> dict[str, str]:
    root = str(Path(__file__).parents[3])
    return {**os.environ, "PYTHONPATH": root}
