"""`giveway schedules`: jobs that are launched by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.domain.moments import seconds
from app.domain.schedules import Missed, Overlap, Rule, RunState, ScheduleState
from app.errors import UsageError

if TYPE_CHECKING:
    from app.services.templates import JobTemplate

PANEL = "Jobs"
ORDER = 30

Named = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
_WHEN, _WHAT = "When it runs", "What becomes of a run"


def register(app: typer.Typer) -> None:
    """Add the group `schedules` to `app`."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Launch jobs by the clock: add, look at, pause and run schedules.",
    )
    group.command("list")(list_)
    group.command("next")(next_)
    group.command(cls=_Kept)(add)
    for command in (pause, resume, run, remove, history):
        group.command()(command)
    app.add_typer(group, name="schedules")


class _Kept(TyperCommand):
    """`add`: whoever leaves the -- out is told so, not that the job's options are unknown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What typer makes of `args`. UsageError: options of the job without a -- before it."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if "--" in given or "submit" not in given or type(error).__name__ != "NoSuchOption":
                raise
            raise UsageError(
                "the job's own options come after --: giveway schedules add NAME --cron … "
                "-- submit KIND …"
            ) from None


def add(
    name: Named,
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- submit KIND …", help="The job, as it would be submitted now."),
    ],
    cron: Annotated[
        str,
        typer.Option(
            help="Minute, hour, day of the month, month, weekday: '0 2 * * *'.",
            rich_help_panel=_WHEN,
        ),
    ],
    timezone: Annotated[
        str, typer.Option(help="Whose clocks: an IANA name.", rich_help_panel=_WHEN)
    ] = "UTC",
    jitter: Annotated[
        str, typer.Option(help="Begin up to so much later, such as 5m.", rich_help_panel=_WHEN)
    ] = "0s",
    done_by: Annotated[
        str | None,
        typer.Option(
            help="The job's deadline: the next such time, 06:00.",
            rich_help_panel=_WHEN,
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Hours in which the job may run, such as 22:00-06:00.",
            rich_help_panel=_WHEN,
            show_default=False,
        ),
    ] = None,
    missed: Annotated[
        Missed,
        typer.Option(help="What becomes of times that nobody ticked at.", rich_help_panel=_WHAT),
    ] = Missed.LATEST,
    missed_within: Annotated[
        str, typer.Option(help="Make up for none that is older.", rich_help_panel=_WHAT)
    ] = "3d",
    overlap: Annotated[
        Overlap,
        typer.Option(
            help="What becomes of a run while an earlier job is open.", rich_help_panel=_WHAT
        ),
    ] = Overlap.SKIP,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Launch a job by the clock: what stands after `--` is submitted at each of its times.

    It is read as `giveway submit` reads it, now, so that its faults are told at once. The source is
    opened at each run, by the control worker: files and variables must be there for it.
    """
    from app.cli.parts.keeping import template_of
    from app.cli.parts.schedule_view import document, print_schedule
    from app.storage.sources.origins import not_there

    rule = Rule(
        cron=cron,
        timezone=timezone,
        missed=missed,
        missed_within_s=seconds(missed_within),
        overlap=overlap,
        jitter_s=seconds(jitter),
        done_by=done_by,
    )
    with wiring_for(config, data) as wiring:
        template = _within(template_of(command, wiring), window, timezone)
        schedule = wiring.scheduling.add(name, rule, template.model_dump(mode="json"))
        upcoming = wiring.scheduling.upcoming(schedule, 1, clock.now())
    if (lacking := not_there(template.source.uri)) is not None:
        render.note(f"{lacking}; it must be there for the control worker when the job is due")
    if missed is Missed.ALL and overlap is Overlap.SKIP:
        render.note("missed runs are all made up for, but only the first finds no job open:")
        render.note("  --overlap queue would run them one after the other")
    if as_json:
        render.json_document(document(schedule, upcoming))
    else:
        print_schedule(schedule, upcoming)


def _within(template: JobTemplate, window: str | None, timezone: str) -> JobTemplate:
    """With the schedule's window, by the schedule's clocks where it names none."""
    from app.domain.windows import parsed

    if window is None:
        return template
    hours = parsed(window.replace("@", " "), timezone)
    return template.model_copy(update={"window": str(hours)})


def list_(as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA) -> None:
    """List the schedules, and when each runs next."""
    from app.cli.parts.schedule_view import document, print_schedules

    with wiring_for(config, data) as wiring:
        now = clock.now()
        found = [
            (one, wiring.scheduling.upcoming(one, 1, now)) for one in wiring.scheduling.listed()
        ]
    if as_json:
        render.json_document({"schedules": [document(one, upcoming) for one, upcoming in found]})
    elif found:
        print_schedules(found)
    else:
        typer.echo("no schedules; add one with: giveway schedules add NAME --cron … -- submit …")


def next_(
    name: Named,
    count: Annotated[int, typer.Option(min=1, max=1000, help="So many.")] = 5,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show the next times of a schedule, and what changes of the clocks do to them."""
    from app.cli.parts.schedule_view import next_document, print_next

    with wiring_for(config, data) as wiring:
        schedule = wiring.scheduling.named(name)
        upcoming = wiring.scheduling.upcoming(schedule, count, clock.now())
    if as_json:
        render.json_document(
            {
                "schedule": name,
                "state": schedule.state,
                "next": [next_document(n) for n in upcoming],
            }
        )
    else:
        print_next(schedule, upcoming)


def pause(
    name: Named, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Let a schedule's times pass by."""
    _set(name, ScheduleState.PAUSED, as_json=as_json, config=config, data=data)


def resume(
    name: Named, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Let a schedule fire again. What came while it was paused is not made up for."""
    _set(name, ScheduleState.ACTIVE, as_json=as_json, config=config, data=data)


def _set(name: str, state: ScheduleState, *, as_json: bool, config: Config, data: Data) -> None:
    from app.cli.parts.schedule_view import document, print_schedule

    with wiring_for(config, data) as wiring:
        schedule = wiring.scheduling.set_state(name, state)
        upcoming = wiring.scheduling.upcoming(schedule, 1, clock.now())
    if as_json:
        render.json_document(document(schedule, upcoming))
    else:
        print_schedule(schedule, upcoming)


def run(
    name: Named, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Launch a schedule's job now, whatever the clock says. Its overlap policy holds."""
    from app.cli.parts import bell
    from app.cli.parts.schedule_view import launched_document

    with wiring_for(config, data) as wiring:
        done = wiring.schedule_runs.run(name)
        if done.job is not None:
            bell.ring(wiring, done.job.pool)
    if as_json:
        render.json_document(launched_document(done))
    elif done.job is not None:
        typer.echo(f"job {done.job.id} ({done.job.key}) is {done.job.state}")
    else:
        typer.echo(f"the run is {done.state}: {done.reason}")
    if done.state is RunState.FAILED:
        raise typer.Exit(render.FAILED)


def remove(
    name: Named, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Remove a schedule and its history; the jobs it launched stay."""
    with wiring_for(config, data) as wiring:
        wiring.scheduling.remove(name)
    if as_json:
        render.json_document({"removed": name})
    else:
        typer.echo(f"schedule {name} is removed; its jobs stay")


def history(
    name: Named,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 20,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show a schedule's runs, the newest first, and what became of their jobs."""
    from app.cli.parts.schedule_view import print_history, run_document

    with wiring_for(config, data) as wiring:
        schedule = wiring.scheduling.named(name)
        runs = wiring.scheduling.history(name, limit)
    if as_json:
        documents = [run_document(schedule, one) for one in runs]
        render.json_document({"schedule": name, "runs": documents})
    elif runs:
        print_history(schedule, runs)
    else:
        typer.echo(f"schedule {name} has not run yet")
