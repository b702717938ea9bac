"""The simulated figures of the README and docs/explanation/throttle.md: benchmarks/results/simulation.json.

    python benchmarks/simulation.py              all workloads, seeds 0 to 4; about half an hour
    python benchmarks/simulation.py --summary    the tables and pictures from the stored results

Constants were tuned on seeds 100 to 104; only seeds 0 to 4 are reported. The pressure rule and the
fixed cap are also run with their one number swept, so that each can be shown at its best in hindsight.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.domain.throttle.policies.budget import OPTIONS
from app.simulation import charts
from app.simulation.faults import FAULTS
from app.simulation.results import RunResult, document
from app.simulation.run import Contender, Run, ground, run_all, run_one
from app.simulation.workloads import WORKLOADS, workload

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results" / "simulation.json"
PICTURES = ROOT.parent / "docs" / "pictures"
SEEDS = range(5)
KEY = ("step", "diurnal", "spikes", "gamma4")
FIRST = (*KEY, "sparse", "light")
CAPS = (4, 8, 12, 16, 20, 24, 32, 40, 48)
PRESSURE_MAX = (16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 112)
EVERYWHERE = (
    *("budget", "pressure", "pressure:32", "pressure:48", "pressure:64", "static:16", "static:32"),
    *("aimd", "gradient", "vegas", "unlimited", "oracle"),
)


def main() -> None:
    """Run what is asked for; progress on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--summary", action="store_true", help="only show the stored results")
    parser.add_argument("--workloads", default=",".join(_order()), help="comma-separated")
    given = parser.parse_args()
    if not given.summary:
        measure(given.workloads.split(","))
    for line in summary(json.loads(RESULTS.read_text())["runs"]):
        print(line)


def measure(names: Sequence[str]) -> None:
    """All contenders on these workloads; kept after each workload, beside what was there."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": [], "faults": []}
    pictured: list[Run] = []
    for name in names:
        begun = time.monotonic()
        contenders = [Contender.parse(text) for text in _contenders(name)]
        results: list[RunResult] = []
        for run in run_all(contenders, [name], SEEDS, progress=_tell):
            results.append(run.result)
            shown = run.result.policy in ("budget", "pressure:64", "static:16")
            if name in ("step", "diurnal", "spikes") and run.result.seed == 0 and shown:
                pictured.append(run)
        stored["runs"] = [r for r in stored["runs"] if r["workload"] != name]
        stored["runs"] += document(results)["runs"]
        stored["constants"] = dict(OPTIONS)
        stored["seconds"] = {**stored.get("seconds", {}), name: round(time.monotonic() - begun, 1)}
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    stored["faults"] = [_fault_document(run) for run in faults()]
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    if pictured:
        charts.over_time(pictured, PICTURES / "throttle-over-time.png")
    key = [_result(r) for r in stored["runs"] if r["workload"] in KEY]
    if key:
        charts.frontier(key, PICTURES / "throttle-frontier.png")


def faults() -> list[Run]:
    """The default under each fault, on a steady load."""
    runs = []
    for wrong in FAULTS.values():
        _tell(f"fault {wrong.name}")
        base = ground(workload("poisson5"), 0, engines=3 if wrong.slow_engine != 1.0 else 1)
        runs.append(run_one(Contender.parse("budget"), base, wrong))
    return runs


def summary(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Markdown: medians with ranges for every workload, and each rule at its best in hindsight."""
    lines = [
        "| workload | policy | on target | without batch | work of oracle's | of dedicated |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(run["workload"] for run in runs):
        for policy in EVERYWHERE:
            mine = [r for r in runs if r["workload"] == name and r["policy"] == policy]
            if mine:
                lines.append(_row(name, policy, mine))
    lines += ["", "At matched attainment (the best setting in hindsight that keeps at least"]
    lines += ["the default's median share on target, or 99 %):", ""]
    lines += ["| workload | against | setting | on target | work | default | ratio |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for name in KEY:
        for family in ("pressure", "static"):
            for word, row in matched(runs, name, family).items():
                lines.append(f"| {name} | {family}, {word} | {row} |")
    return lines


def matched(runs: Sequence[dict[str, Any]], name: str, family: str) -> dict[str, str]:
    """The best of a swept family at two bars: the default's own attainment, and its promise."""
    here = [r for r in runs if r["workload"] == name]
    own_on, own_work = _medians([r for r in here if r["policy"] == "budget"])
    alone = statistics.median([r["on_target_without_batch"] for r in here]) if here else 0.0
    swept = {
        label: _medians([r for r in here if r["policy"] == label])
        for label in {r["policy"] for r in here if r["policy"].partition(":")[0] == family}
    }
    rows = {}
    for word, bar in (("as many on target", own_on), ("1 % given up", alone - 0.01)):
        kept = {label: point for label, point in swept.items() if point[0] >= bar}
        if not kept:
            rows[word] = f"none keeps {bar:.1%} | – | – | {own_work:.2f} | –"
            continue
        best = max(kept, key=lambda label: kept[label][1])
        on, work = kept[best]
        rows[word] = f"{best} | {on:.1%} | {work:.2f} | {own_work:.2f} | {own_work / work:.2f} ×"
    return rows


def _row(name: str, policy: str, mine: Sequence[dict[str, Any]]) -> str:
    def span(key: str, form: str) -> str:
        values = [run[key] for run in mine]
        low, middle, high = min(values), statistics.median(values), max(values)
        return f"{form.format(middle)} ({form.format(low)} to {form.format(high)})"

    cells = [
        span("on_target", "{:.1%}"),
        span("on_target_without_batch", "{:.1%}"),
        span("work_share_of_oracle", "{:.2f}"),
        span("work_share_of_dedicated", "{:.2f}"),
    ]
    return f"| {name} | {policy} | {' | '.join(cells)} |"


def _medians(mine: Sequence[dict[str, Any]]) -> tuple[float, float]:
    if not mine:
        return 0.0, 0.0
    return (
        statistics.median([run["on_target"] for run in mine]),
        statistics.median([run["work_share_of_oracle"] for run in mine]),
    )


def _contenders(name: str) -> list[str]:
    if name not in KEY:
        return list(EVERYWHERE)
    swept = [f"static:{cap}" for cap in CAPS] + [f"pressure:{most}" for most in PRESSURE_MAX]
    return list(dict.fromkeys([*EVERYWHERE, *swept]))


def _order() -> list[str]:
    return [*FIRST, *(name for name in WORKLOADS if name not in FIRST)]


def _fault_document(run: Run) -> dict[str, Any]:
    plain: dict[str, Any] = document([run.result])["runs"][0]
    return plain


def _result(plain: dict[str, Any]) -> RunResult:
    signs = {"signs": tuple(plain["signs"]), "signs_kept": tuple(plain["signs_kept"])}
    return RunResult(**{**plain, **signs})


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
