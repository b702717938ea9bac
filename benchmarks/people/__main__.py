"""`python -m benchmarks.people`: run it, print it, write it."""

from __future__ import annotations

import argparse
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson

from benchmarks.people import picture, report
from benchmarks.people.endpoint import LEAST_S, MOST_S
from benchmarks.people.figures import document
from benchmarks.people.plan import CONTENDERS, WARM_UP_S, full, quick
from benchmarks.people.run import play_all
from benchmarks.people.stage import stage
from benchmarks.throttle.stage import ROOT


def main() -> None:
    """Read the flags and do it."""
    given = _parser().parse_args()
    names = tuple(given.contenders.split(","))
    unknown = sorted(set(names) - set(CONTENDERS))
    if unknown:
        raise SystemExit(f"no contender {unknown[0]!r}; known: {', '.join(CONTENDERS)}")
    legs = (quick if given.quick else full)(names)
    began = time.monotonic()
    with stage() as on:
        runs, missing = play_all(legs, on, given.seed, lambda line: print(line, flush=True))
    told = document(
        runs,
        missing=missing,
        quick=given.quick,
        warm_up_s=WARM_UP_S,
        endpoint_ms=[LEAST_S * 1000, MOST_S * 1000],
        seed=given.seed,
        machine={
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - began),
    )
    file = given.json
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")
    print(f"wrote {file}")
    if given.page is not None:
        drawn = picture.draw(runs, given.pictures)
        page = given.page.read_text() if given.page.exists() else "# People, and what they wait\n"
        given.page.write_text(report.page_with(page, report.section(runs, told)))
        for path in (given.page, *drawn):
            print(f"wrote {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.people", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few and short legs: under a minute")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help=",".join(CONTENDERS))
    parser.add_argument("--seed", type=int, default=1)
    written = ROOT / "benchmarks/results/people.json"
    parser.add_argument("--json", type=Path, default=written, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="where the section goes")
    drawn = ROOT / "docs/pictures"
    parser.add_argument("--pictures", type=Path, default=drawn, metavar="DIR")
    return parser


if __name__ == "__main__":
    main()
