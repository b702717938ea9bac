"""The options that the commands of `giveway submit` share, whatever the kind of job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

HOW_READ, HOW_RUN = "How the file is read", "How the job runs"


def option(help: str, panel: str, *names: str, **more: Any) -> Any:  # noqa: A002
    """An option whose help says its default itself."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


File = Annotated[str, typer.Argument(metavar="FILE", help="CSV or JSONL; - is standard input.")]

Format = Annotated[str | None, option("csv or jsonl; default: told from the file.", HOW_READ)]
Delimiter = Annotated[str | None, option("Of CSV; default: told from the header.", HOW_READ)]
Lenient = Annotated[
    bool,
    option("Skip bad lines and count them; default: refuse the file.", HOW_READ, "--lenient"),
]

Key = Annotated[
    str | None,
    option(
        "Same key, same job, however often it is submitted; default: from the content.", HOW_RUN
    ),
]
Name = Annotated[str | None, option("What people call it; default: its key.", HOW_RUN)]
Priority = Annotated[int, option("Higher goes first; default: 0.", HOW_RUN)]
Weight = Annotated[
    float, option("Its share among jobs of one priority; default: 1.", HOW_RUN, min=0.001)
]
MaxInFlight = Annotated[int | None, option("Most requests of this job at a time.", HOW_RUN, min=1)]
ChunkItems = Annotated[int | None, option("Items leased together.", HOW_RUN, min=1, max=100_000)]
Deadline = Annotated[
    str | None,
    option(
        "Done by then: 8h, or 2026-12-01T06:00. Holds up to a quarter of the capacity.",
        HOW_RUN,
        metavar="WHEN",
    ),
]
NoYield = Annotated[
    bool,
    option(
        "Never close its calls in the middle, even when people need their places.",
        HOW_RUN,
        "--no-yield",
    ),
]
Wait = Annotated[
    bool,
    option(
        "Wait for the end; exit status 1 unless it completed with no item failed.",
        HOW_RUN,
        "--wait",
    ),
]
