"""The section of the page: tables of what each adds, and what it loses at."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.people.figures import Run, added_ms
from benchmarks.people.picture import FILE
from benchmarks.people.plan import CONTENDERS, DIRECT, GIVEWAY, LANE, WARM_UP_S

HEADING = "## What it adds, measured"
"""The section from here to the next heading of its rank is the benchmark's own."""


def page_with(page: str, section: str) -> str:
    """`page` with `section` under its heading; at its end where it has none yet."""
    before, found, rest = page.partition(f"{HEADING}\n")
    _, next_heading, after = rest.partition("\n## ") if found else ("", "", "")
    text = f"{before.rstrip()}\n\n{HEADING}\n\n{section.strip()}\n"
    return f"{text}\n## {after}" if next_heading else text


def section(runs: Sequence[Run], told: dict[str, Any]) -> str:
    """What stands under the heading."""
    machine = told["machine"]
    begin = (
        f"`make bench-people` measured this on {told['measured_at'][:10]}, on {machine['cores']} "
        f"cores, in one sitting: an endpoint that answers in {told['endpoint_ms'][0]:g} to "
        f"{told['endpoint_ms'][1]:g} ms, arrivals by chance (Poisson, the same for all), each wait "
        "counted from when the request was *due*. *direct* calls the endpoint; *celery* is a plain "
        "Celery app on the same broker whose task makes the same call; *giveway* is the stack of "
        "`giveway up` asked through `app.client`, no batch, without Flower; *lane* is its lane "
        f"awaited in process. {WARM_UP_S:g} s of the same load come before each run and are not "
        "counted. Figures for machines: `benchmarks/results/people.json`."
    )
    lines = [
        textwrap.fill(begin, 120, break_long_words=False, break_on_hyphens=False),
        "",
        f"![Milliseconds added to the endpoint's own, over requests a second](../pictures/{FILE})",
        "",
        "Milliseconds added to *direct*, at P50 / P95:",
        "",
    ]
    at_rates = [one for one in runs if not one.cores_busy and one.round_trips_per_request is None]
    names = [name for name in CONTENDERS if any(one.contender == name for one in at_rates)]
    rates = sorted({one.rps for one in at_rates})
    lines += _table(
        ["requests/s", "direct itself", *(name for name in names if name != DIRECT)],
        [
            [f"{rate:g}", _itself(at_rates, rate)]
            + [_added(at_rates, rate, name, runs) for name in names if name != DIRECT]
            for rate in rates
        ],
    )
    lines += ["", "The same with the database away (its round trip as measured by `SELECT 1`):", ""]
    lines += _table(
        [
            "contender",
            "requests/s",
            "database",
            "ok of sent",
            "P50",
            "P95",
            "round trips a request",
        ],
        [
            [
                one.contender,
                f"{one.rps:g}",
                f"{one.database_rtt_ms:.1f} ms",
                f"{one.ok:,} of {one.sent:,}",
                *_both(one, runs),
                f"{one.round_trips_per_request:.2f}",
            ]
            for one in runs
            if one.round_trips_per_request is not None
        ],
    )
    busy = [one for one in runs if one.cores_busy]
    if busy:
        said = (
            f"With every core kept busy by another process of the same priority, {busy[0].rps:g} "
            "requests a second; whole waits, since *direct* suffers as well:"
        )
        lines += ["", *textwrap.wrap(said, 120), ""]
        lines += _table(
            ["contender", "ok of sent", "P50 ms", "P95 ms", "P99 ms"],
            [
                [
                    one.contender,
                    f"{one.ok:,} of {one.sent:,}",
                    *map(_ms, (one.p50_ms, one.p95_ms, one.p99_ms)),
                ]
                for one in busy
            ],
        )
    said = (
        "CPU a request, in milliseconds: of those who serve (interactive workers, Celery's worker; "
        "of *direct* and *lane* the process that asks), of the process that asks, and of all "
        "processes of the contender:"
    )
    lines += ["", *textwrap.wrap(said, 120), ""]
    lines += _table(
        ["contender", "requests/s", "serving", "asking", "all"],
        [
            [
                one.contender,
                f"{one.rps:g}",
                f"{one.cpu_ms_per_request:.1f}",
                f"{one.caller_cpu_ms_per_request:.1f}",
                "–" if one.all_cpu_ms_per_request is None else f"{one.all_cpu_ms_per_request:.1f}",
            ]
            for one in at_rates
            if one.rps >= 50
        ],
    )
    lines += ["", "Where it loses:", "", *losses(runs)]
    if told["missing"]:
        lines += ["", "Not run: " + "; ".join(told["missing"]) + "."]
    if told["quick"]:
        lines += ["", "**These are figures of a quick run, which say little.**"]
    return "\n".join(lines)


def losses(runs: Sequence[Run]) -> list[str]:
    """Each rate at which a way of ours adds more than plain Celery, or loses requests."""
    found = []
    for one in runs:
        if one.contender not in (GIVEWAY, LANE):
            continue
        where = f"*{one.contender}* at {one.rps:g}/s"
        if one.round_trips_per_request is not None:
            where += f", the database {one.database_rtt_ms:.1f} ms away"
        if one.cores_busy:
            where += ", every core busy"
        if one.ok < one.sent:
            found.append(f"- {where}: {one.sent - one.ok} of {one.sent} got no answer.")
        beside = [
            r
            for r in runs
            if (r.contender, r.rps, r.cores_busy) == ("celery", one.rps, one.cores_busy)
        ]
        for name, word in (("p50_ms", "P50"), ("p95_ms", "P95")):
            mine = added_ms(one, runs, name)
            its = added_ms(beside[0], runs, name) if beside else None
            if mine is not None and its is not None and mine > its:
                found.append(
                    f"- {where}: {word} is {mine:.1f} ms above *direct*, Celery's {its:.1f} ms."
                )
    return found or ["- Nowhere in this run."]


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def _itself(runs: Sequence[Run], rate: float) -> str:
    found = [one for one in runs if (one.contender, one.rps) == (DIRECT, rate)]
    return f"{_ms(found[0].p50_ms)} / {_ms(found[0].p95_ms)}" if found else "–"


def _added(some: Sequence[Run], rate: float, name: str, runs: Sequence[Run]) -> str:
    found = [one for one in some if (one.contender, one.rps) == (name, rate)]
    return " / ".join(_both(found[0], runs)) if found else "–"


def _both(one: Run, runs: Sequence[Run]) -> tuple[str, str]:
    told: Callable[[str], str] = lambda name: _ms(added_ms(one, runs, name))  # noqa: E731
    return told("p50_ms"), told("p95_ms")


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
