"""How fast a source becomes a job, and in how much memory, for every sort of source.

    python -m benchmarks.sources [--records 1000000] [--json FILE]

Each sort is loaded by a process of its own through the same use case as `giveway submit`: read,
hashed, copied into a real Postgres from the wheel, cut into chunks. Meanwhile that process's memory
is sampled, and another connection asks for the job's total: nothing or all, never a part. "read_s"
is the time until the content hash is known, "load_s" the rest.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import psycopg

from app.local.bare import embedded_postgres_at
from app.services.templates import checked_template
from app.settings import Settings
from app.storage import schema
from app.storage.database import Database
from app.wiring import Wiring

TEXT = "Return the smallest index of the value, or raise an error if it is not there ({})."
MODEL = "fake-embed"
_GROUP = 50_000


def files(folder: Path, records: int) -> dict[str, dict[str, Any]]:
    """A CSV, a JSONL and a Parquet file of the same short texts, as sources."""
    import pyarrow
    from pyarrow import parquet

    made = {name: folder / f"docs.{name}" for name in ("csv", "jsonl", "parquet")}
    table_of = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.string())])
    with (
        made["csv"].open("w", encoding="utf-8") as as_csv,
        made["jsonl"].open("w", encoding="utf-8") as as_jsonl,
        parquet.ParquetWriter(made["parquet"], table_of) as as_parquet,
    ):
        as_csv.write("id,text\n")
        for first in range(0, records, _GROUP):
            numbers = range(first, min(records, first + _GROUP))
            ids, texts = [f"doc-{n}" for n in numbers], [TEXT.format(n) for n in numbers]
            pairs = list(zip(ids, texts, strict=True))
            as_csv.writelines(f'{key},"{text}"\n' for key, text in pairs)
            as_jsonl.writelines(json.dumps({"id": k, "text": t}) + "\n" for k, t in pairs)
            as_parquet.write_table(pyarrow.table([ids, texts], schema=table_of))
    return {name: {"uri": str(path), "id_field": "id"} for name, path in made.items()}


def queries(url: str, records: int) -> dict[str, dict[str, Any]]:
    """The same texts in a table of another database on that server, read in two ways."""
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("CREATE DATABASE theirs")
    theirs = url.rsplit("/", 1)[0] + "/theirs"
    with psycopg.connect(theirs, autocommit=True) as own:
        own.execute("CREATE TABLE docs (id bigint PRIMARY KEY, body text)")
        own.execute(
            "INSERT INTO docs SELECT n, replace(%s, '{}', CAST(n AS text)) "
            "FROM generate_series(1, CAST(%s AS bigint)) AS n",
            [TEXT, records],
        )
        own.execute("VACUUM ANALYZE docs")
    asked = {"uri": theirs, "query": "select id, body from docs", "id_field": "id"}
    asked["text_field"] = "body"
    return {"sql": asked, "sql_keyset": {**asked, "keyset": True}}


def loaded(url: str, name: str, source: dict[str, Any]) -> dict[str, Any]:
    """Load `source` in this process; times and this process's memory."""
    endpoint = {"name": "e", "base_url": "http://127.0.0.1:9", "models": [MODEL]}
    settings = {"database": {"url": url}, "pools": [{"name": "main"}], "endpoints": [endpoint]}
    wiring = Wiring(Settings.model_validate(settings))
    template = checked_template(
        {
            "kind": "embed",
            "params": {"model": MODEL, "collection": f"bench-{name}".replace("_", "-")},
            "source": source,
        }
    )
    with sampled() as memory, watched(url, name) as totals:
        began = time.perf_counter()
        with wiring.launching.items(template.source) as items:
            items.content_hash()
            known = time.perf_counter()
            job = wiring.launching.submit(template, name, items).job
        ended = time.perf_counter()
    wiring.database.close()
    return {
        "records": job.total,
        "read_s": round(known - began, 2),
        "load_s": round(ended - known, 2),
        "records_per_s": round(job.total / (ended - began)),
        "peak_mib": round(max(memory) / 2**20),
        "totals_seen": sorted(totals),
    }


@contextmanager
def sampled() -> Iterator[list[int]]:
    """This process's resident bytes, every 20 ms."""
    process, seen, over = psutil.Process(), [0], threading.Event()

    def sample() -> None:
        while not over.wait(0.02):
            seen.append(process.memory_info().rss)

    with _beside(sample, over):
        yield seen


@contextmanager
def watched(url: str, key: str) -> Iterator[set[tuple[str, int]]]:
    """What others see of the job meanwhile: its state, and how many items it has."""
    seen: set[tuple[str, int]] = set()
    over = threading.Event()

    def watch() -> None:
        with psycopg.connect(url, autocommit=True) as own:
            going_on = True
            while going_on:
                going_on = not over.wait(0.2)
                seen.update(own.execute("SELECT state, total FROM jobs WHERE key = %s", [key]))

    with _beside(watch, over):
        yield seen


@contextmanager
def _beside(work: Any, over: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Make the sources, load each, report."""
    parser = argparse.ArgumentParser(description=__doc__, prog="benchmarks.sources")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        url, name, source = given.one
        sys.stdout.write(json.dumps(loaded(url, name, json.loads(source))))
        return
    result: dict[str, Any] = {
        "records": given.records,
        "machine": f"{platform.machine()}, {psutil.cpu_count()} CPUs, {platform.python_version()}",
        "sources": {},
    }
    made = TemporaryDirectory(prefix="giveway-bench-")
    with made as folder, embedded_postgres_at(Path(folder) / "postgres") as url:
        database = Database(url)
        schema.upgrade(database)
        database.close()
        sources = {**files(Path(folder), given.records), **queries(url, given.records)}
        for name, source in sources.items():
            # A process of its own, so that its peak is its own.
            call = [sys.executable, "-m", "benchmarks.sources", "--one", url, name]
            done = subprocess.run(
                [*call, json.dumps(source)], stdout=subprocess.PIPE, check=True, text=True
            )
            result["sources"][name] = json.loads(done.stdout)
            sys.stderr.write(f"{name}: {done.stdout}\n")
            with psycopg.connect(url, autocommit=True) as own:
                own.execute("TRUNCATE items")
                own.execute("CHECKPOINT")
    document = json.dumps(result, indent=2)
    sys.stdout.write(document + "\n")
    if given.json:
        given.json.write_text(document + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
