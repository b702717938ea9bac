"""`giveway calibrate`: what an endpoint bears, and the pool settings that follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, Force, JsonFlag, settings_file, wiring_for
from app.errors import ConfigError, StateConflict

if TYPE_CHECKING:
    from app.cli.parts.calibration_file import Change
    from app.domain.calibration.measured import Measured
    from app.domain.calibration.plan import Plan
    from app.services.calibration import Subject
    from app.wiring import Wiring

PANEL = "The throttle"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(calibrate)


def calibrate(
    pool: Annotated[
        str | None,
        typer.Option("--pool", help="Default: the only one there is.", show_default=False),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Default: the pool's first.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The chat model people use; default: the first not for embedding.",
            show_default=False,
        ),
    ] = None,
    embed_model: Annotated[
        str | None,
        typer.Option(help="Default: the first whose name says so.", show_default=False),
    ] = None,
    target_p95_ms: Annotated[
        float | None,
        typer.Option(
            help="What a request may take; default: 1.75 times that of one alone.",
            min=1,
            show_default=False,
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="Length of each answer.")] = 48,
    prompt_words: Annotated[int, typer.Option(min=1, help="Length of each prompt.")] = 64,
    seconds_per_step: Annotated[float, typer.Option(min=0.5, help="At each rate.")] = 7.0,
    max_rps: Annotated[
        float | None,
        typer.Option(help="Never send more a second.", min=0.01, show_default=False),
    ] = None,
    despite_traffic: Annotated[
        bool, typer.Option("--despite-traffic", help="Even if others use the endpoint now.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Put the settings into the settings file.")
    ] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Draw it: a .png or .svg file.", show_default=False)
    ] = None,
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Load a real endpoint step by step, find where it becomes slow, propose settings.

    It sends requests of its own straight to the endpoint: alone, with more and more in flight,
    then at a rising rate until the P95 leaves the target or a request fails. Nothing is stored.
    """
    from app.cli.parts import calibration_chart, calibration_view
    from app.cli.parts.calibration_file import change, obstacle
    from app.cli.parts.calibration_subject import pool_now, subject
    from app.domain.calibration.plan import Plan
    from app.domain.calibration.proposal import concluded
    from app.storage.sinks.writing import CHARTS, check_output, whole

    if chart is not None:
        check_output(str(chart), force=force, what="a chart", endings=CHARTS)
        calibration_chart.check()  # Not after a minute of measuring.
    plan = Plan(max_tokens, prompt_words, seconds_per_step, max_rps, target_p95_ms)
    with wiring_for(config, data) as wiring:
        chosen = subject(wiring.pools, pool, endpoint, model, embed_model)
        file = settings_file(config, data)
        if write and file is not None and (hindered := obstacle(file, chosen.spec)):
            raise ConfigError(hindered)
        _look_first(wiring, chosen, despite_traffic=despite_traffic)
        measured = _measured(wiring, chosen, plan)
        settings = wiring.settings
    findings = concluded(measured, pool_now(settings, chosen.spec))
    wanted = change(settings, file, chosen.spec, findings.proposal)
    if chart is not None:
        with whole(str(chart)) as stream:
            calibration_chart.draw(measured, findings, stream, chart.suffix)
        render.note(f"drew {chart}")
    if not as_json:
        calibration_view.show(chosen, measured, findings, settings)
        typer.echo(f"\n{wanted.shown}", nl=False)
    written = write and wanted.save()
    if as_json:
        render.json_document(
            {
                **calibration_view.document(chosen, measured, findings),
                "file": wanted.file,
                "change": wanted.shown,
                "written": written,
            }
        )
    render.note(_outcome(wanted, write=write))


def _look_first(wiring: Wiring, chosen: Subject, *, despite_traffic: bool) -> None:
    """StateConflict: somebody uses the endpoint, and that was not said to be right."""
    traffic = wiring.calibration.traffic(chosen.spec)
    name = chosen.spec.name
    if traffic is None:
        render.note(
            f"endpoint {name!r} does not tell its load; make sure that nobody else uses it now"
        )
    elif traffic and not despite_traffic:
        raise StateConflict(
            f"endpoint {name!r} is working on {traffic} requests of others: they would suffer, and "
            "the figures would be wrong. Pause its jobs (giveway jobs pause), or add "
            "--despite-traffic"
        )
    elif traffic:
        render.note(f"endpoint {name!r} has {traffic} requests of others: figures will be too low")


def _measured(wiring: Wiring, chosen: Subject, plan: Plan) -> Measured:
    from app.cli.parts.progress import Steps

    calibration, spec = wiring.calibration, chosen.spec
    call_s = calibration.first_call_s(chosen, plan)
    expected_s = plan.expected_s(
        call_s, spec.max_concurrency, embeds=chosen.embed_model is not None
    )
    render.note(
        f"measuring endpoint {spec.name!r} with {chosen.chat_model}: this may take "
        f"{render.span(expected_s)}; Ctrl-C ends it at once"
    )
    with Steps() as steps:
        said = ""

        def told(stage: str, done: float, total: float, unit: str) -> None:
            nonlocal said
            if stage != said:
                said = stage
                steps.begin(stage, round(total), unit)
            steps.at(round(done))

        return calibration.measure(chosen, plan, call_s, told)


def _outcome(wanted: Change, *, write: bool) -> str:
    if wanted.file is None:
        return "no settings file declares this pool; giveway.toml could say the above"
    left_out = (
        f"; {wanted.file} does not declare the endpoint, set its part where it is declared"
        if wanted.endpoint_left_out
        else ""
    )
    if wanted.after == wanted.before:
        return f"{wanted.file} says so already{left_out}"
    if not write:
        return f"add --write to change {wanted.file} so{left_out}"
    return f"wrote {wanted.file}; processes read it when they start{left_out}"
