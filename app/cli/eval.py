"""`giveway eval`: how good answers are, with intervals; two runs compared; an exit code for CI."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, Force, JsonFlag, wiring_for
from app.cli.parts import submit_options as shared
from app.cli.parts.submit_options import option
from app.domain.evaluation.runs import MOST_UNSCORED

if TYPE_CHECKING:
    from app.services.evaluation import Run
    from app.wiring import Wiring

PANEL = "Jobs"
ORDER = 20
_WHAT, _VERDICT = "What is evaluated", "The verdict"

Ref = Annotated[str, typer.Argument(metavar="RUN", help="Its key or its id.")]
MaxErrors = Annotated[
    float,
    option(
        f"Share of items without a score past which there is no verdict; default: {MOST_UNSCORED}.",
        _VERDICT,
        min=0,
        max=1,
    ),
]
FailUnder = Annotated[
    list[str] | None,
    option(
        "Exit status 1 where the mean is under it; may be given again.",
        _VERDICT,
        metavar="METRIC=VALUE",
    ),
]
Html = Annotated[
    Path | None,
    option("Write one page with charts that needs nothing else.", _VERDICT, metavar="FILE"),
]


def register(app: typer.Typer) -> None:
    """Add the group `eval` to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Evaluate answers, and compare two runs.")
    for command in (run, show, compare):
        group.command()(command)
    app.add_typer(group, name="eval")


def run(
    file: shared.File = None,
    source: shared.Source = None,
    query: shared.Query = None,
    table: shared.Table = None,
    keyset: shared.Keyset = False,
    where: shared.Where = None,
    limit: shared.Limit = None,
    input_field: Annotated[str, option("Field that is the question; default: text.", _WHAT)] = (
        "text"
    ),
    expected_field: Annotated[
        str | None, option("Field that says what the answer should be.", _WHAT)
    ] = None,
    output_field: Annotated[
        str | None, option("Field with the answers, where they are there already.", _WHAT)
    ] = None,
    id_field: Annotated[
        str | None, option("Field that names an item; default: its number in the file.", _WHAT)
    ] = None,
    prompt: Annotated[
        str | None,
        option(
            "Jinja template over an item's fields, or @FILE with it; default: the question alone.",
            _WHAT,
        ),
    ] = None,
    model: Annotated[
        str | None, option("Model under test; default: the first fitting one declared.", _WHAT)
    ] = None,
    system: Annotated[
        str | None, option("What the model is told before every prompt, or @FILE with it.", _WHAT)
    ] = None,
    max_tokens: Annotated[
        int | None, option("Longest answer, in tokens; default: 512.", _WHAT, min=1)
    ] = None,
    temperature: Annotated[
        float | None, option("Chance in the answers; default: 0.", _WHAT, min=0, max=2)
    ] = None,
    repeats: Annotated[
        int | None, option("Answers an item, to see how much they differ.", _WHAT, min=1, max=100)
    ] = None,
    scorer: Annotated[
        list[str] | None, option("How answers are scored; may be given again.", _WHAT)
    ] = None,
    scorer_option: Annotated[
        list[str] | None,
        option(
            "Of a scorer, such as judge.model=M; JSON or text, @FILE for what a file says.",
            _WHAT,
            "--option",
            metavar="SCORER.OPTION=VALUE",
        ),
    ] = None,
    format: shared.Format = None,  # noqa: A002
    delimiter: shared.Delimiter = None,
    encoding: shared.Encoding = None,
    lenient: shared.Lenient = False,
    key: shared.Key = None,
    name: shared.Name = None,
    priority: shared.Priority = 0,
    weight: shared.Weight = 1.0,
    tenant: shared.Tenant = None,
    max_in_flight: shared.MaxInFlight = None,
    chunk_items: shared.ChunkItems = None,
    deadline: shared.Deadline = None,
    window: shared.Window = None,
    after: shared.After = None,
    budget: shared.Budget = None,
    dry_run: shared.DryRun = False,
    no_wait: Annotated[
        bool,
        option("Submit and leave; see it later with `giveway eval show`.", _VERDICT, "--no-wait"),
    ] = False,
    max_errors: MaxErrors = MOST_UNSCORED,
    fail_under: FailUnder = None,
    html: Html = None,
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Score the answers of a model over FILE, or answers that FILE holds, and wait for the figures.

    The same key with the same content goes on where it was: no answer is paid for twice. Exit
    status 0: a verdict, and every metric is what --fail-under asks. 1: there is no verdict, or a
    metric is under it. 2: what was asked cannot be; nothing was paid for.
    """
    from app.cli.parts import bell
    from app.cli.parts.eval_asked import Asked, least, template_of
    from app.cli.parts.submitting import loaded, report_skipped, warn_of_slips
    from app.cli.parts.watching import watch
    from app.services.evaluation import check_installed

    asked = Asked(
        uri=shared_uri(file, source),
        query=query,
        table=table,
        keyset=keyset,
        where=where,
        limit=limit,
        input_field=input_field,
        expected_field=expected_field,
        output_field=output_field,
        id_field=id_field,
        prompt=prompt,
        model=model,
        system=system,
        max_tokens=max_tokens,
        temperature=temperature,
        repeats=repeats,
        scorers=tuple(scorer or ()),
        options=tuple(scorer_option or ()),
        format=format,
        delimiter=delimiter,
        encoding=encoding,
        lenient=lenient,
        name=name,
        priority=priority,
        weight=weight,
        max_in_flight=max_in_flight,
        chunk_items=chunk_items,
        tenant=tenant,
        deadline=deadline,
        window=window,
        after=tuple(after or ()),
        budget=budget,
    )
    check_installed()
    wanted = least(fail_under or (), asked.scorers)
    check_page(html, force=force)
    with wiring_for(config, data) as wiring:
        template = template_of(asked, wiring.pools_with(model))
        warn_of_slips(template)
        if dry_run:
            from app.cli.parts.estimate import estimate

            estimate(wiring, template, key, as_json=as_json)
            return
        submitted, report = loaded(wiring, template, key, wait=not no_wait)
        if submitted.created:
            report_skipped(report)
        bell.ring(wiring, submitted.job.pool)
        reference = submitted.job.key
        if no_wait:
            _submitted(reference, submitted.job.total, as_json=as_json)
            return
        watch(wiring.inspection, reference)
        found = wiring.evaluation.run(reference, max_errors)
        _tell(wiring, found, wanted, html, as_json=as_json)


def show(
    reference: Ref,
    max_errors: MaxErrors = MOST_UNSCORED,
    fail_under: FailUnder = None,
    html: Html = None,
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show the figures of a run, finished or not. Exit status 1 where there is no verdict."""
    from app.cli.parts.eval_asked import least

    check_page(html, force=force)
    with wiring_for(config, data) as wiring:
        found = wiring.evaluation.run(reference, max_errors)
        wanted = least(fail_under or (), found.summary.metrics)
        _tell(wiring, found, wanted, html, as_json=as_json)


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="What was: its key or its id.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="What is compared to it.")],
    margin: Annotated[
        list[str] | None,
        option(
            "Test that the second is no worse by more than this, such as 0.02 or numeric=0.02; "
            "exit status 1 where that is not shown; may be given again.",
            _VERDICT,
            metavar="[METRIC=]VALUE",
        ),
    ] = None,
    shared_only: Annotated[
        bool,
        option(
            "Compare what both have, where they are over different items.",
            _VERDICT,
            "--shared-only",
        ),
    ] = False,
    flips: Annotated[
        int, option("Items shown whose score changed; default: 20.", _VERDICT, min=0)
    ] = 20,
    max_errors: MaxErrors = MOST_UNSCORED,
    fail_under: FailUnder = None,
    html: Html = None,
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Compare two runs over the same items: paired tests, and the items that flipped.

    --fail-under looks at the second run. Exit status 1 where one of them has no verdict, a metric
    is under what is asked, or the second is not shown to be within the margin.
    """
    from app.cli.parts.eval_asked import least, margins
    from app.cli.parts.eval_view import pair_document, print_pair, verdict

    check_page(html, force=force)
    with wiring_for(config, data) as wiring:
        pair = wiring.evaluation.pair(
            first, second, max_errors, margins=margins(margin or ()), shared_only=shared_only
        )
        flipped = wiring.evaluation.flipped(pair) if html is not None or as_json else {}
    differences = pair.comparison.metrics
    wanted = least(fail_under or (), differences)
    judged = verdict((pair.first, pair.second), pair.second.summary, wanted, differences)
    if html is not None:
        from app.cli.parts.eval_page import pair_page

        _write(html, pair_page(pair, judged, flipped))
    if as_json:
        render.json_document(pair_document(pair, judged, flipped))
    else:
        print_pair(pair, judged, flips)
    if not judged.passed:
        raise typer.Exit(render.FAILED)


def _tell(
    wiring: Wiring, found: Run, wanted: dict[str, float], html: Path | None, *, as_json: bool
) -> None:
    from app.cli.parts.eval_view import print_run, run_document, verdict

    judged = verdict((found,), found.summary, wanted)
    if html is not None:
        from app.cli.parts.eval_page import run_page

        with closing(wiring.evaluation.shown(found.job.id)) as shown:
            _write(html, run_page(found, shown, judged))
    if as_json:
        render.json_document(run_document(found, judged))
    else:
        print_run(found, judged)
    if not judged.passed:
        raise typer.Exit(render.FAILED)


def _submitted(key: str, total: int, *, as_json: bool) -> None:
    if as_json:
        render.json_document({"key": key, "n": total, "verdict": "pending"})
        return
    typer.echo(f"{total:,} items; key {key}")
    typer.echo(f"see it with: giveway eval show {key}")


def shared_uri(file: str | None, source: str | None) -> str:
    """Where the items come from. UsageError: said twice, or not at all."""
    from app.errors import UsageError

    if (file is None) == (source is None):
        raise UsageError("name a FILE, or a database or data set with --source")
    uri = file if file is not None else source
    assert uri is not None
    return uri


def check_page(html: Path | None, *, force: bool) -> None:
    """UsageError: the page cannot be written. Said before anything is paid for."""
    from app.storage.sinks.writing import PAGES, check_output

    if html is not None:
        check_output(str(html), force=force, what="a page", endings=PAGES)


def _write(path: Path, page: str) -> None:
    from app.storage.sinks.writing import write_page

    write_page(path, page)
    render.note(f"written: {path}")
