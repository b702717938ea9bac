"""`python -m benchmarks.throttle`: run it, print it, write it."""

from __future__ import annotations

import argparse
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks.throttle import contenders, pictures, report
from benchmarks.throttle.figures import Run
from benchmarks.throttle.run import Plan, run
from benchmarks.throttle.scenes import CHATS, LOADS, SCENES
from benchmarks.throttle.stage import ROOT, stage


def main() -> None:
    """Read the flags and do it."""
    given = _parser().parse_args()
    scene = SCENES[given.scene]
    caps = scene.caps[1:5:2] if given.quick else scene.caps
    if given.full:
        caps = tuple(range(1, scene.caps[-1] + 3))
    every = tuple(range(1, scene.endpoint.places))
    known = contenders.named(every, every)
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
        scene=scene,
        loads=tuple(name for name in LOADS if name in loads or name == "steady"),
        contenders=names or contenders.named(caps, scene.workers),
        seeds=tuple(range(given.first_seed, given.first_seed + given.seeds)),
        scale=given.seconds / scene.steady_s if given.seconds else (0.5 if given.quick else 1.0),
        rps=given.rps or scene.rps,
        warm_up_s=8.0 if given.quick else 15.0,
    )
    console = Console(width=None if Console().is_terminal else 180)
    with stage(scene) as on:
        outcome = run(plan, on, lambda what: console.print(f"[dim]{what}[/dim]"))
    file = given.json or ROOT / f"benchmarks/results/{scene.stem}.json"
    document = report.document(outcome, plan)
    if given.keep and file.exists():
        document = report.beside(orjson.loads(file.read_bytes()), document)
    runs = [Run(**one) for one in document["runs"]]
    report.show(runs, console)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(document, option=_READABLE) + b"\n")
    if given.page is not None and scene is CHATS:
        page = given.page.read_text()
        given.page.write_text(report.page_with(page, report.markdown(runs)))
    written = pictures.draw(runs, outcome.legs, given.pictures, f"{scene.stem}-stack")
    for path in (file, *written):
        console.print(f"wrote {path}")
    minutes = outcome.seconds / 60
    console.print(f"{minutes:.1f} minutes; the machine was {document['machine']['busy']:.0%} busy")
    if outcome.failures:
        raise SystemExit("\n".join(outcome.failures))


def _means(word: str, name: str) -> bool:
    """`caps` names all fixed ones, `cap3` one of them; any other word is part of a name."""
    if word == "caps":
        return contenders.is_fixed(name)
    if word.startswith("cap"):
        return name == contenders.fixed(int(word.removeprefix("cap")))
    if word.startswith("prio") and word[4:].isdigit():
        return name == contenders.priority(int(word.removeprefix("prio")))
    if word == "priority":
        return name == contenders.PRIORITY
    return word in name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throttle", description=__doc__)
    parser.add_argument("--seconds", type=float, help="of the steady load; scales calm phases too")
    parser.add_argument("--loads", help=f"some of {','.join(LOADS)}")
    parser.add_argument(
        "--contenders", help="some of one queue,priority,prio22 …,cap6 …,caps,pressure,budget"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
    parser.add_argument(
        "--keep", action="store_true", help="what the file of figures has of other seeds"
    )
    parser.add_argument("--first-seed", type=int, default=1, help="of as many in a row (1)")
    parser.add_argument("--rps", type=float, help="people in a surge")
    parser.add_argument("--scene", choices=tuple(SCENES), default=CHATS.name)
    parser.add_argument("--full", action="store_true", help="every fixed cap, one by one")
    parser.add_argument("--quick", action="store_true", help="fewer contenders, loads and seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    drawn = ROOT / "docs/pictures"
    parser.add_argument("--pictures", type=Path, default=drawn, metavar="DIR")
    parser.add_argument("--page", type=Path, metavar="FILE", help="where the tables of chats go")
    return parser


_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS

if __name__ == "__main__":
    main()
