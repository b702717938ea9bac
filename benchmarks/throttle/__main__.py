"""`python -m benchmarks.throttle`: run it, print it, write it."""

from __future__ import annotations

import argparse
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks.throttle import contenders, pictures, report
from benchmarks.throttle.loads import LOADS
from benchmarks.throttle.run import Plan, run
from benchmarks.throttle.stage import ROOT, stage

STEADY_S = 24.0
"""Length of the steady load at scale 1; the others keep their proportion to it."""
PLACES, SPEED, RPS = 8, 0.5, 8.5
"""The endpoint, and where it matters: 8.5 people a second want 24 tokens each of 8 places that give
40 tokens a second, so people alone fill two thirds of it in a surge, and a third in steady load. At
speed 0.5 (a step of 25 ms) two cores carry everything else besides."""


def main() -> None:
    """Read the flags and do it."""
    given = _parser().parse_args()
    caps = (1, 2) if given.quick else contenders.CAPS
    known = contenders.named(tuple(sorted({*caps, *range(1, PLACES)})))
    chosen = tuple(given.contenders.split(",")) if given.contenders else ()
    names = tuple(n for n in known if any(_means(word, n) for word in chosen))
    if given.quick and not chosen:
        names = (contenders.PRIORITY, *map(contenders.fixed, caps), contenders.BUDGET)
    loads = given.loads.split(",") if given.loads else list(LOADS)
    if given.quick and not given.loads:
        loads = ["steady", "step"]
    unknown = sorted(set(loads) - set(LOADS))
    if unknown:
        raise SystemExit(f"no load {unknown[0]!r}; known: {', '.join(LOADS)}")
    if chosen and not names:
        raise SystemExit(f"no such contender; known: {'; '.join(known)}")
    plan = Plan(
        # The target comes from the steady load, so it is always run.
        loads=tuple(name for name in LOADS if name in loads or name == "steady"),
        contenders=names or contenders.named(caps),
        seeds=tuple(range(1, given.seeds + 1)),
        scale=given.seconds / STEADY_S if given.seconds else (0.5 if given.quick else 1.0),
        rps=given.rps,
        warm_up_s=8.0 if given.quick else 15.0,
    )
    console = Console(width=None if Console().is_terminal else 180)
    with stage(PLACES, SPEED) as on:
        outcome = run(plan, on, lambda what: console.print(f"[dim]{what}[/dim]"))
        report.show(outcome.runs, console)
        document = report.document(outcome, plan, on, SPEED)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_bytes(orjson.dumps(document, option=_READABLE) + b"\n")
    if given.page is not None:
        page = given.page.read_text()
        given.page.write_text(report.page_with(page, report.markdown(outcome.runs)))
    written = pictures.draw(outcome.runs, outcome.legs, given.pictures)
    for path in (given.json, *written):
        console.print(f"wrote {path}")
    minutes = outcome.seconds / 60
    console.print(f"{minutes:.1f} minutes; the machine was {document['machine']['busy']:.0%} busy")
    if outcome.failures:
        raise SystemExit("\n".join(outcome.failures))


def _means(word: str, name: str) -> bool:
    """`caps` names all fixed ones, `cap3` one of them; any other word is part of a name."""
    is_cap = name.startswith("two queues")
    if word == "caps":
        return is_cap
    if word.startswith("cap"):
        return is_cap and name == contenders.fixed(int(word.removeprefix("cap")))
    return word in name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throttle", description=__doc__)
    parser.add_argument("--seconds", type=float, help=f"of the steady load ({STEADY_S:g})")
    parser.add_argument("--loads", help=f"some of {','.join(LOADS)}")
    parser.add_argument(
        "--contenders", help="some of one queue,priority,cap1…cap7,caps,pressure,budget"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
    parser.add_argument("--rps", type=float, default=RPS, help=f"people in a surge ({RPS:g})")
    parser.add_argument("--quick", action="store_true", help="fewer contenders, loads and seconds")
    results = ROOT / "benchmarks/results/throttle.json"
    parser.add_argument("--json", type=Path, default=results, metavar="FILE")
    drawn = ROOT / "docs/pictures"
    parser.add_argument("--pictures", type=Path, default=drawn, metavar="DIR")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page to write the tables into")
    return parser


_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS

if __name__ == "__main__":
    main()
