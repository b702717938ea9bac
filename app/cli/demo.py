"""`giveway demo`: all of it on this machine, in about a minute."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import render
from app.cli.common import JsonFlag

if TYPE_CHECKING:
    from app.cli.parts.demo_run import Pace
    from app.cli.parts.demo_view import DemoView
    from app.local.demo.measured import Measured
    from app.local.state import StackState

PANEL = "The stack"
ORDER = 90
_QUICK_EVERY, _QUICK_S = 6, 4.0


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(demo)


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A third of the work.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1, max=120, help="Of people alone, at first.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("giveway-demo"),
    as_json: JsonFlag = False,
) -> None:
    """Embed Python's docstrings while people ask: without a limit, then with Giveway.

    A stack of its own runs in a temporary folder. The same people ask three times: alone, beside a
    backfill that nothing holds back, and beside the same backfill under Giveway. Exit status 0
    only if every item was embedded and people waited less with Giveway.
    """
    from app.cli.parts.demo_run import Pace
    from app.cli.parts.demo_view import DemoView
    from app.storage.sinks.writing import made_folder

    made_folder(output)  # Said before minutes of measuring; what an earlier run left is replaced.
    pace = Pace(_QUICK_S, _QUICK_EVERY) if quick else Pace()
    if seconds is not None:
        pace = Pace(seconds, pace.every)
    with _stopped_by_signals(), DemoView() as view, _stack(view, pace, keep=keep) as state:
        measured = _measured(view, state, pace)
    _report(measured, output, as_json=as_json)
    if keep:
        _tell_where(state)
    if measured.faults():
        raise typer.Exit(render.FAILED)


@contextmanager
def _stack(view: DemoView, pace: Pace, *, keep: bool) -> Iterator[StackState]:
    """The stack, with the corpus in its folder; both gone at the end, unless they are kept."""
    from app.cli.parts.demo_run import CORPUS, start_stack
    from app.local import background
    from app.local.demo.corpus import write_corpus

    data = Path(tempfile.mkdtemp(prefix="giveway-demo-"))
    is_kept = False
    view.say(f"starting Postgres, Valkey, three workers, beat, Flower and an endpoint in {data}")
    try:
        with ThreadPoolExecutor(1) as pool:
            corpus = pool.submit(write_corpus, data / CORPUS, pace.every)
            state = start_stack(data)
            view.say(f"the corpus: {corpus.result():,} docstrings of Python's standard library")
        yield state
        is_kept = keep
    finally:
        if not is_kept:
            with _undisturbed():
                background.stop(data)
                shutil.rmtree(data, ignore_errors=True)


def _measured(view: DemoView, state: StackState, pace: Pace) -> Measured:
    from app.cli.common import wiring_for
    from app.cli.parts.bell import celery_that_answers
    from app.cli.parts.demo_run import CORPUS, Course

    data = Path(state.data)
    config = Path(state.config) if state.config else None
    with wiring_for(config, data) as wiring, celery_that_answers(wiring) as celery:
        return Course(wiring, celery, data / CORPUS, view.show).run(pace, view.over)


def _report(measured: Measured, output: Path, *, as_json: bool) -> None:
    import orjson

    from app.local.demo.picture import draw
    from app.local.demo.report import report_text
    from app.storage.sinks.writing import whole

    document, text = measured.document(), report_text(measured)
    for name, content in (
        ("report.json", orjson.dumps(document, option=orjson.OPT_INDENT_2)),
        ("report.txt", text.encode()),
    ):
        with whole(str(output / name)) as stream:
            stream.write(content)
    drawn = draw(measured, output / "picture.svg")
    if as_json:
        render.json_document(document)
    else:
        typer.echo("\n" + text)
    written = ("report.json", "report.txt", *(["picture.svg"] if drawn else []))
    render.note(f"written to {output}: {', '.join(written)}")


def _tell_where(state: StackState) -> None:
    from app.cli.stack_view import addresses_of

    lines = [
        "the stack runs on",
        *addresses_of(state.addresses),
        f"data:     {state.data}",
        f'try:      giveway search python "open a zip archive" --data {state.data}',
        f"stop it:  giveway down --data {state.data}; rm -r {state.data}",
    ]
    for line in lines:
        render.note(line)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """TERM and HUP end the demo as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with _handled({signal.SIGTERM: interrupt, signal.SIGHUP: interrupt}):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Impatience must not leave half a stack behind."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _handled(dict.fromkeys(numbers, signal.SIG_IGN)):
        yield


@contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
