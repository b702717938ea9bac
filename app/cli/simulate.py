"""`giveway simulate`: policies on workloads in virtual time, side by side; and a first lesson."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import render
from app.cli.common import Force
from app.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.simulation.results import RunResult
    from app.simulation.run import Run
    from app.simulation.signs import Sign

PANEL = "The throttle"
_MOST_SEEDS = 1_000


def register(app: typer.Typer) -> None:
    """Add the command `simulate`, with `simulate lesson` beneath it."""
    group = typer.Typer(
        invoke_without_command=True,
        help="Run policies on workloads in virtual time, seeded, side by side.",
    )
    group.callback()(simulate)
    group.command()(lesson)
    app.add_typer(group, name="simulate")


def simulate(
    context: typer.Context,
    policies: Annotated[
        str,
        typer.Option(help="Comma-separated; `static:16` and `pressure:64` set their one number."),
    ] = "budget,pressure,static",
    workloads: Annotated[
        str, typer.Option(help="Comma-separated, or `all`; an unknown name lists those there are.")
    ] = "step",
    seeds: Annotated[int, typer.Option(help="How many seeds, from --first-seed on.", min=1)] = 1,
    first_seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    fault: Annotated[
        str | None, typer.Option(help="Something that goes wrong 300 s into the run.")
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(help="Draw limit, P95 and batch work over time into this .png or .svg."),
    ] = None,
    frontier: Annotated[
        Path | None, typer.Option(help="Draw people on target against batch work into this file.")
    ] = None,
    force: Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Run policies on workloads in virtual time, with production's own decisions."""
    if context.invoked_subcommand is not None:
        return
    from app.simulation.faults import fault as fault_named
    from app.simulation.results import document
    from app.simulation.run import Contender, run_all
    from app.simulation.workloads import WORKLOADS, workload
    from app.storage.sinks.writing import CHARTS, check_output, whole

    if seeds > _MOST_SEEDS:
        raise ConfigError(f"--seeds {seeds}: at most {_MOST_SEEDS}")
    contenders = [Contender.parse(text) for text in _names(policies, "--policies")]
    loads = list(WORKLOADS) if workloads == "all" else _names(workloads, "--workloads")
    for name in loads:
        workload(name)
    wrong = None if fault is None else fault_named(fault)
    for path in (chart, frontier):
        if path is not None:
            from app.simulation import charts

            check_output(str(path), force=force, what="a chart", endings=CHARTS)
            charts.check()
    steps = len(loads) * seeds * (len(contenders) + 1)
    runs: list[Run] = []
    with _progress(steps) as tell:
        numbers = range(first_seed, first_seed + seeds)
        for run in run_all(contenders, loads, numbers, fault=wrong, progress=tell):
            runs.append(run)
    results = [run.result for run in runs]
    if chart is not None:
        with whole(str(chart)) as stream:
            charts.over_time(runs, stream, chart.suffix)
        render.note(f"wrote {chart}")
    if frontier is not None:
        with whole(str(frontier)) as stream:
            charts.frontier(results, stream, frontier.suffix)
        render.note(f"wrote {frontier}")
    if as_json:
        render.json_document(document(results))
        return
    _print_table(results)
    for result in results:
        if result.seed == first_seed:
            typer.echo(f"\n{result.workload}, {result.policy} (seed {result.seed})")
            for kept, text in zip(result.signs_kept, result.signs, strict=True):
                typer.echo(f"  {'✓' if kept else '✗'} {text}")


def lesson(
    seed: Annotated[int, typer.Option(help="For the chances of the second part.", min=0)] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Two small classics on fixed places, which you can check by hand."""
    import dataclasses

    from app.simulation.lesson import both_gates, growth

    gates, grown = both_gates(), growth(seed)
    if as_json:
        render.json_document(
            {
                "places": [dataclasses.asdict(gate) for gate in gates],
                "nodes": dataclasses.asdict(grown),
            }
        )
        return
    typer.echo("8 places; 20 batch tasks of 200 ms at once, then 10 people of 20 ms each\n")
    render.table(
        ["people come at", "throttle", "P50", "P95", "batch done", "most batch"],
        [
            [
                f"{gate.people_at_ms:.0f} ms",
                "1 to 6" if gate.throttled else "none",
                f"{gate.people_p50_ms:.0f} ms",
                f"{gate.people_p95_ms:.0f} ms",
                f"{gate.batch_done_ms:.0f} ms",
                str(gate.most_batch),
            ]
            for gate in gates
        ],
        right=["P50", "P95", "batch done", "most batch"],
    )
    for gate in gates:
        word = "with" if gate.throttled else "without"
        typer.echo(f"\npeople at {gate.people_at_ms:.0f} ms, {word} the throttle")
        _print_signs(gate.signs)
    typer.echo(
        "\n10 requests of random priority, 300 ms each, 1 in 20 failing; a node has 3 places\n"
    )
    render.table(
        ["request", "priority", "started", "answered", "attempts"],
        [
            [
                str(one.number),
                str(one.priority),
                f"{one.started_ms:.0f} ms",
                f"{one.ended_ms:.0f} ms",
                str(one.attempts),
            ]
            for one in grown.served
        ],
        right=["request", "priority", "started", "answered", "attempts"],
    )
    if grown.node_added_ms is None:
        typer.echo("\nno node was added")
    else:
        typer.echo(f"\na node was added at {grown.node_added_ms:.0f} ms: {grown.why_added}")
    _print_signs(grown.signs)


def _print_signs(told: Sequence[Sign]) -> None:
    for sign in told:
        typer.echo(f"  {'✓' if sign.kept else '✗'} {sign.text}")


def _print_table(results: Sequence[RunResult]) -> None:
    headings = [
        "workload",
        "policy",
        "on target",
        "without batch",
        "work of oracle's",
        "of dedicated",
        "P95",
        "P95 without",
        "settles",
        "swing",
        "wasted",
    ]
    rows = []
    for load in dict.fromkeys(result.workload for result in results):
        for policy in dict.fromkeys(result.policy for result in results):
            mine = [r for r in results if r.workload == load and r.policy == policy]
            rows.append(
                [
                    load,
                    policy,
                    _span([r.on_target for r in mine], "{:.1%}"),
                    _span([r.on_target_without_batch for r in mine], "{:.1%}"),
                    _span([r.work_share_of_oracle for r in mine], "{:.2f}"),
                    _span([r.work_share_of_dedicated for r in mine], "{:.2f}"),
                    _span([r.p95_ms for r in mine], "{:,.0f} ms"),
                    _span([r.p95_ms_without_batch for r in mine], "{:,.0f} ms"),
                    _span([r.settle_s for r in mine], "{:.0f} s"),
                    _span([r.limit_swing for r in mine], "{:.2f}"),
                    _span([r.wasted_share for r in mine], "{:.1%}"),
                ]
            )
    render.table(headings, rows, right=headings[2:])


def _span(values: Sequence[float | None], form: str) -> str:
    """The median; with several seeds the range as well. A dash where the figure does not apply."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    middle = form.format(statistics.median(known))
    if len(known) == 1:
        return middle
    return f"{middle} [{form.format(min(known))}, {form.format(max(known))}]"


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError(f"{option} names nothing; separate names by commas")
    return list(dict.fromkeys(names))


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=steps)
        begun = False

        def tell(what: str) -> None:
            nonlocal begun
            bar.update(task, description=what, advance=1 if begun else 0)
            begun = True

        yield tell
