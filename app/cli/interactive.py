"""`giveway ask` and `giveway load`: one person, and many."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.domain.moments import seconds
from app.errors import UsageError

if TYPE_CHECKING:
    from celery import Celery

    from app.domain.load import LoadPlan, LoadReport, Waited

PANEL = "People"

Model = Annotated[
    str | None,
    typer.Option(help="Default: the first declared that is made for it.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(ask)
    app.command()(load)


def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="- reads standard input.")],
    model: Model = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The answer's most tokens.")] = 256,
    priority: Annotated[
        int, typer.Option(min=0, max=9, help="0 to 9; the higher comes first.")
    ] = 0,
    deadline: Annotated[
        str | None,
        typer.Option(help="When the answer is no use any more: 5s, 1m.", show_default=False),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Who asks, for the records.", show_default=False)
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait at most.")] = 120.0,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Ask a model as a person does, in front of all batch work.

    The answer goes to standard output, where it came from and how long it took to standard error.
    Ctrl-C takes the request back: what was not sent is not sent, and a call in flight is closed.
    """
    from app.cli.parts.models import chat_model
    from app.worker.asking import asker

    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise UsageError("the prompt is blank")
    with wiring_for(config, data) as wiring:
        asked: dict[str, Any] = {"prompt": text, "max_tokens": max_tokens}
        asked["model"] = chat_model(wiring.pools_with(model), model)
        asked |= {"priority": priority} if priority else {}
        asked |= {"user": user} if user else {}
        wanted_s = timeout
        if deadline is not None:
            asked["deadline_s"] = seconds(deadline)
            wanted_s = min(timeout, asked["deadline_s"])
        with closing(asker(wiring)) as people:
            began = clock.monotonic_s()
            reply = people.ask("chat", asked, wanted_s, timeout)
            round_trip_ms = (clock.monotonic_s() - began) * 1000
    if as_json:
        render.json_document({**reply, "round_trip_ms": round(round_trip_ms, 1)})
        return
    typer.echo(reply["text"])
    first, total = render.ms(reply["first_token_ms"]), render.ms(reply["total_ms"])
    render.note(
        f"{reply['model']} at {reply['endpoint']}{_stood_in(reply)}: first token after {first}, "
        f"all after {total}, {reply['completion_tokens']} tokens"
    )


def _stood_in(reply: dict[str, Any]) -> str:
    """What is worth saying of an endpoint that is not a primary one."""
    return "" if reply["role"] == "primary" else f" ({reply['role']})"


def load(
    rps: Annotated[float, typer.Option(help="Requests a second, on average.")] = 5.0,
    seconds: Annotated[float, typer.Option(help="For how long people come.")] = 15.0,
    model: Model = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Each answer's most tokens.")] = 64,
    kind: Annotated[str, typer.Option(help="chat or embed.")] = "chat",
    prompt_words: Annotated[int, typer.Option(min=1, help="Words of each prompt.")] = 40,
    poisson: Annotated[
        bool, typer.Option("--poisson/--steady", help="By chance, or at even distances.")
    ] = True,
    seed: Annotated[int, typer.Option(help="The same people in every run.")] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds before somebody leaves.")] = 60.0,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Send interactive requests as people do, and say what they waited: P50, P95, P99.

    People come when they come, however slow the answers are, and each wait is counted from when
    the request was due. Exit status 1 if not a single request went well.
    """
    from app.cli.parts.bell import celery_that_answers
    from app.cli.parts.models import chat_model, embedding_model
    from app.domain.load import LoadPlan

    chosen = _kind(kind)
    with wiring_for(config, data) as wiring:
        pick = chat_model if chosen == "chat" else embedding_model
        plan = LoadPlan(
            model=pick(wiring.pools_with(model), model),
            rps=rps,
            seconds=seconds,
            kind=chosen,
            max_tokens=max_tokens,
            prompt_words=prompt_words,
            seed=seed,
            poisson=poisson,
            timeout_s=timeout,
        )
        with celery_that_answers(wiring) as app:
            report = _run(app, plan)
    if as_json:
        render.json_document(report.to_json())
    else:
        _print(report)
    if report.sent and not report.ok:
        raise typer.Exit(render.FAILED)


def _kind(kind: str) -> Literal["chat", "embed"]:
    if kind == "chat":
        return "chat"
    if kind == "embed":
        return "embed"
    raise UsageError(f"no kind of request {kind!r}; known: chat, embed")


def _run(app: Celery, plan: LoadPlan) -> LoadReport:
    from app.cli.parts.load_line import LiveLine
    from app.worker.load import run_load

    stop = threading.Event()
    with LiveLine(plan) as line:

        def on_finish(waited: Waited) -> None:
            line.saw(waited)

        try:
            return run_load(app, plan, on_finish, stop)
        except KeyboardInterrupt:
            stop.set()
            raise


def _print(report: LoadReport) -> None:
    codes = ", ".join(f"{code} {count:,}" for code, count in report.errors.items())
    first = (
        f"P50 {render.ms(report.first_token_p50_ms)}, P95 {render.ms(report.first_token_p95_ms)}"
    )
    render.facts(
        [
            ("sent", f"{report.sent:,} in {report.wall_s:.1f} s ({report.rps_achieved:.1f}/s)"),
            ("ok", f"{report.ok:,}"),
            ("failed", f"{report.failed:,}" + (f": {codes}" if codes else "")),
            ("P50", render.ms(report.p50_ms)),
            ("P95", render.ms(report.p95_ms)),
            ("P99", render.ms(report.p99_ms)),
            ("mean, most", f"{render.ms(report.mean_ms)}, {render.ms(report.max_ms)}"),
            ("first token", first if report.first_token_p50_ms is not None else None),
        ]
    )
