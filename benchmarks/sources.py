"""How fast sources are read, and in how much memory: records/s and peak RSS, as JSON.

python benchmarks/sources.py [--records 200000] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from app.storage.sources.base import ReadOptions
from app.storage.sources.reading import read

TEXT = "Return the smallest index of the value, or raise an error if it is not there ({})."


def written(folder: Path, name: str, records: int) -> Path:
    """A file of `records` short texts in the format of `name`."""
    path = folder / name
    with path.open("w", encoding="utf-8") as file:
        if path.suffix == ".csv":
            file.write("id,text\n")
            file.writelines(f'doc-{n},"{TEXT.format(n)}"\n' for n in range(records))
        else:
            file.writelines(
                json.dumps({"id": f"doc-{n}", "text": TEXT.format(n)}) + "\n"
                for n in range(records)
            )
    return path


def measured(path: Path) -> dict[str, float]:
    """One reading in this process: records, records/s and peak RSS in MiB."""
    reading = read(path, ReadOptions(id_field="id", text_field="text"))
    began = time.perf_counter()
    for _ in reading:
        pass
    took_s = time.perf_counter() - began
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "records": reading.report.records,
        "records_per_s": round(reading.report.records / took_s),
        "peak_mib": round(peak_kib / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(args.one)))
        return
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("docs.jsonl", "docs.csv"):
            path = written(Path(folder), name, args.records)
            # A process of its own, so that its peak is its own.
            done = subprocess.run(
                [sys.executable, __file__, "--one", path], capture_output=True, check=True
            )
            result[path.suffix[1:]] = json.loads(done.stdout)
    text = json.dumps(result, indent=2)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
