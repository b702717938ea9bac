"""The options that the commands of `giveway submit` share, whatever the kind of job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.domain.jobs import Failover

FROM, HOW_READ, HOW_RUN = "Where the items come from", "How they are read", "How the job runs"


def option(help: str, panel: str, *names: str, **more: Any) -> Any:  # noqa: A002
    """An option whose help says its default itself."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


File = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE]",
        help="CSV, JSONL or Parquet, or a folder of texts; - is standard input.",
        show_default=False,
    ),
]
Source = Annotated[
    str | None,
    option(
        "Instead of FILE: a database URL, hf:DATASET, or env:NAME, a variable that holds one.",
        FROM,
        metavar="URL",
    ),
]
Query = Annotated[str | None, option("Of a database: what is selected.", FROM, metavar="SQL")]
Table = Annotated[str | None, option("Of a database: the whole of it.", FROM)]
Keyset = Annotated[
    bool,
    option("Read by pages in the order of the id, each a short transaction.", FROM, "--keyset"),
]
Where = Annotated[
    str | None,
    option(
        "Only those for which it holds: SQL, or over a file's fields such as 'lang == \"de\"'.",
        FROM,
        metavar="EXPRESSION",
    ),
]
Limit = Annotated[int | None, option("Only the first so many.", FROM, min=1)]

Format = Annotated[
    str | None, option("csv, jsonl or parquet; default: told from the file.", HOW_READ)
]
Delimiter = Annotated[str | None, option("Of CSV; default: told from the header.", HOW_READ)]
Encoding = Annotated[
    str | None,
    option("Of a text file, such as cp1252; default: told from its mark, else UTF-8.", HOW_READ),
]
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
Tenant = Annotated[
    str | None, option("Whose it is; tenants share alike; default: default.", HOW_RUN)
]
MaxInFlight = Annotated[int | None, option("Most requests of this job at a time.", HOW_RUN, min=1)]
ChunkItems = Annotated[int | None, option("Items leased together.", HOW_RUN, min=1, max=100_000)]
Deadline = Annotated[
    str | None,
    option(
        "Done by then: 8h, or 2026-12-01T06:00. Holds up to a quarter of the capacity "
        "while people are well.",
        HOW_RUN,
        metavar="WHEN",
    ),
]
Window = Annotated[
    str | None,
    option(
        "Hours in which it may run, such as 22:00-06:00@Europe/Berlin; no zone: UTC.",
        HOW_RUN,
        metavar="HOURS",
    ),
]
After = Annotated[
    list[str] | None,
    option("Only once that job has completed; may be given again.", HOW_RUN, metavar="JOB"),
]
FailoverOption = Annotated[
    Failover | None,
    option("What it does when no primary endpoint can serve it; default: wait.", HOW_RUN),
]
Budget = Annotated[
    float | None, option("Pause when its calls have cost this.", HOW_RUN, metavar="MONEY")
]
Webhook = Annotated[str | None, option("Where its end is told, signed.", HOW_RUN, metavar="URL")]
WebhookSecretEnv = Annotated[
    str | None,
    option(
        "Variable of the control worker that holds the signing secret.", HOW_RUN, metavar="NAME"
    ),
]
DeleteMissing = Annotated[
    bool | None,
    option(
        "Delete vectors of items that the source gave before and gives no more; default: yes for "
        "a query, a table or a folder, no for a file.",
        HOW_RUN,
        "--delete-missing/--keep-missing",
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
ResumeStreamed = Annotated[
    bool,
    option(
        "Go on with an answer whose call was closed for people, instead of asking for it anew.",
        HOW_RUN,
        "--resume-streamed",
    ),
]
DryRun = Annotated[
    bool,
    option(
        "Count and estimate: items, tokens, time, money. Nothing is written.", HOW_RUN, "--dry-run"
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
