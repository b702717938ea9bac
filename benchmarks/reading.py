"""How long the reading takes with ten million request rows, alone and beside pruning.

    python -m benchmarks.reading [--rows 10000000] [--json FILE]

Real Postgres from the wheel. The rows are a busy history: 25 requests a second without a pause,
so that the window of 10 s holds about 250 of them, and 40 are in flight. Each reading is the
statement that the tick runs, timed at the caller; "beside pruning" runs the retention's own deletes
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import text

from app.domain.throttle.values import PolicySettings
from app.local.bare import embedded_postgres_at
from app.services.retention import Periods, Retention
from app.storage import schema
from app.storage.database import Database
from app.storage.request_store import RequestStore

_FILL = text("""
    INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state, ahead,
        submitted_at, started_at, first_token_at, finished_at, completion_tokens)
    SELECT gen_random_uuid(), 'main', 'chat', 'm', 'e', 'done', n % 7,
        now() - make_interval(secs => n / 25.0),
        now() - make_interval(secs => n / 25.0) + interval '5 ms',
        now() - make_interval(secs => n / 25.0) + interval '60 ms',
        now() - make_interval(secs => n / 25.0) + interval '60 ms'
            + make_interval(secs => (n % 50) / 100.0),
        16 + n % 30
    FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS n
""")
_FLYING = text("""
    INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state, submitted_at,
        started_at, lease_until)
    SELECT gen_random_uuid(), 'main', 'chat', 'm', 'e', 'running', now(), now(),
        now() + interval '1 day' FROM generate_series(1, 40)
""")
_BLOCK = 500_000


def filled(database: Database, rows: int) -> None:
    """Make the history, oldest block last, and let Postgres learn its shape."""
    schema.upgrade(database)
    for first in range(1, rows + 1, _BLOCK):
        with database.transaction() as tx:
            tx.execute(text("SET LOCAL synchronous_commit = off"))
            tx.execute(_FILL, {"first": first, "last": min(rows, first + _BLOCK - 1)})
        sys.stderr.write(f"\r{min(rows, first + _BLOCK - 1):,} rows")
    sys.stderr.write("\n")
    with database.transaction() as tx:
        tx.execute(_FLYING)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE interactive_requests"))


def readings_ms(database: Database, count: int) -> list[float]:
    """Milliseconds of each of `count` readings, each in a transaction of its own."""
    policy, taken = PolicySettings(), []
    for _ in range(count):
        began = time.perf_counter()
        with database.transaction() as tx:
            now = tx.execute(text("SELECT clock_timestamp()")).scalar_one()
            reading = RequestStore(tx).reading("main", policy, now)
        taken.append((time.perf_counter() - began) * 1000)
        if not reading.sound or reading.interactive_in_flight != 40:
            raise SystemExit(f"the reading is wrong: {reading}")
        time.sleep(0.02)
    return taken


def summary(taken: list[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    ordered = sorted(taken)
    return {
        "n": len(ordered),
        "p50_ms": round(statistics.median(ordered), 2),
        "p95_ms": round(ordered[int(0.95 * len(ordered))], 2),
        "max_ms": round(ordered[-1], 2),
    }


def beside_pruning(database: Database, rows: int, count: int) -> dict[str, Any]:
    """Readings while the retention deletes the oldest tenth of the history."""
    keep_s = 0.9 * rows / 25.0
    retention = Retention(database, Periods(keep_s, keep_s, keep_s))
    pruned, over = [0], threading.Event()

    def prune() -> None:
        while not over.is_set():
            pruned[0] += retention.prune()

    pruning = threading.Thread(target=prune)
    pruning.start()
    taken = readings_ms(database, count)
    over.set()
    pruning.join()
    return {**summary(taken), "rows_pruned_meanwhile": pruned[0]}


def main() -> None:
    """Fill, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, prog="benchmarks.reading")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--readings", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    made = TemporaryDirectory(prefix="giveway-bench-")
    with made as folder, embedded_postgres_at(Path(folder)) as url:
        database = Database(url, connections=4, statement_timeout_s=600)
        filled(database, given.rows)
        readings_ms(database, 20)  # warm
        result = {
            "rows": given.rows,
            "machine": f"{platform.machine()}, {platform.python_version()}",
            "alone": summary(readings_ms(database, given.readings)),
            "beside_pruning": beside_pruning(database, given.rows, given.readings),
        }
        database.close()
    document = json.dumps(result, indent=2)
    sys.stdout.write(document + "\n")
    if given.json:
        given.json.write_text(document + "\n")


if __name__ == "__main__":
    main()
