"""The commands of a stack, after `python -m`; docker-compose.yml has the same ones."""

from __future__ import annotations

Command = tuple[str, ...]


def migrations() -> Command:
    """Bring the tables to what this version knows, and end."""
    return ("app.cli.main", "db", "upgrade")


def simulated(
    host: str, port: int, places: int, models: tuple[str, ...], speed: float = 1.0
) -> Command:
    """A model server to try things on; `speed` 2 halves all its times."""
    where = ("--host", host, "--port", str(port))
    pace = () if speed == 1.0 else ("--speed", f"{speed:g}")
    return ("app.inference.simulated", *where, "--places", str(places), "--models", *models, *pace)


def worker(queue: str, node: str, threads: int | str) -> Command:
    """A Celery worker of one queue, called `node`.

    Heartbeats stay on, since Flower needs them; mingling and gossip only cost a start.
    """
    how = ("-P", "threads", "-c", str(threads), "-E", "--without-mingle", "--without-gossip")
    return _celery("worker", "-Q", queue, "-n", node, *how, "--loglevel", "INFO")


def beat(schedule: str) -> Command:
    """Celery's clock, which keeps its times in the file `schedule`."""
    return _celery("beat", "--schedule", schedule, "--pidfile", "", "--loglevel", "WARNING")


def scaling() -> Command:
    """Starts and stops the endpoints of pools that are scaled by processes."""
    return ("app.cli.main", "scaling", "agent")


def metrics(host: str, port: int) -> Command:
    """What Prometheus reads, at http://`host`:`port`/metrics."""
    return ("app.cli.main", "metrics", "--serve", "--host", host, "--port", str(port))


COLUMNS = "name,kwargs,state,result,received,runtime,worker,uuid"
"""Of Flower's task page: which job a chunk is of, and what came of it. The last opens the task."""


def flower(host: str, port: int | str, history: str) -> Command:
    """The window on the workers; `history` is saved every fifteen seconds, and as it ends.

    The password comes in FLOWER_BASIC_AUTH: everybody on a machine can read command lines.
    """
    keeping = ("--persistent=True", f"--db={history}", "--state-save-interval=15000")
    shown = ("--max-tasks=20000", f"--tasks-columns={COLUMNS}")
    return _celery("flower", f"--address={host}", f"--port={port}", *keeping, *shown)


def _celery(command: str, *arguments: str) -> Command:
    """Quiet: without the banner, which is thirty lines for each process."""
    return ("celery", "--quiet", "-A", "app", command, *arguments)
