"""How results and errors leave a command: one JSON document, tables, one line a failure."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from app import errors
from app.logs import masked

if TYPE_CHECKING:
    from rich.table import Table

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
_OF_PLACES = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""What the system says of a file or folder that cannot be used."""


def json_document(document: Mapping[str, Any]) -> None:
    """`document` on standard output; times as ISO 8601, bytes as hex."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    typer.echo(orjson.dumps(document, default=_plain, option=options).decode())


def note(text: str) -> None:
    """A line on standard error, for whoever watches; secrets masked."""
    typer.echo(masked(text), err=True)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> None:
    """A table on standard output; the headings in `right` stand over numbers."""
    from rich.console import Console
    from rich.text import Text

    made = _table(headings, right)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 10_000  # Nothing is cut where no screen is.
    console.print(made)


def _table(headings: Sequence[str], right: Sequence[str]) -> Table:
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left")
    return made


def facts(pairs: Iterable[tuple[str, str | None]]) -> None:
    """Names and values, one a line; those without a value are left out."""
    kept = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        typer.echo(f"{name:<{width}}  {value}")


def exit_code(error: BaseException) -> int:
    """2 where the caller can put it right, 130 where the caller stopped it, 1 for all else."""
    match error:
        case errors.UsageError():
            return WRONG_USE
        case OSError() if _is_of_a_place(error):
            return WRONG_USE
        case KeyboardInterrupt():
            return INTERRUPTED
        case _:
            return FAILED


def tell(error: BaseException, *, with_traceback: bool = False) -> int:
    """Say on standard error what went wrong; the exit code that follows."""
    if with_traceback:
        typer.echo(masked("".join(traceback.format_exception(error))), err=True)
    for line in sentences(error):
        typer.echo(masked(line), err=True)
    return exit_code(error)


def sentences(error: BaseException) -> list[str]:
    """The lines that tell `error`: what, which, and what would be right."""
    match error:
        case errors.BadSource(lines=lines, total_bad=total):
            more = total - len(lines)
            tail = [f"  … and {more:,} more"] if more > 0 and lines else []
            return [f"giveway: {error}", *(f"  {line}" for line in lines), *tail]
        case errors.GivewayError():
            first, *rest = str(error).splitlines() or [type(error).__name__]
            return [f"giveway: {first}", *(f"  {line}" for line in rest)]
        case KeyboardInterrupt():
            return ["giveway: stopped"]
        case OSError(filename=place, strerror=said) if _is_of_a_place(error):
            return [f"giveway: {place} cannot be used: {said}; name another place, or free this"]
        case _ if _lacks_tables(error):
            return ["giveway: the database lacks Giveway's tables; run `giveway db upgrade`"]
        case _:
            said = (str(error).splitlines() or [""])[0]
            return [
                f"giveway: unexpected {type(error).__name__}: {said}",
                "  this is a bug in Giveway; `giveway --traceback …` shows where",
            ]


def moment(at: datetime | None) -> str | None:
    """A time as people here read it, to the second."""
    return None if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float | None) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`; a dash where it is not known."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def ms(value: float | None) -> str:
    """Milliseconds; a dash where there are none."""
    return "-" if value is None else f"{value:,.0f} ms"


def on_terminal() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr.isatty()


def _is_of_a_place(error: OSError) -> bool:
    """Whether it is about a file or a folder that somebody named, and about nothing of ours."""
    return error.filename is not None and error.errno in _OF_PLACES


def _lacks_tables(error: BaseException) -> bool:
    """Whether Postgres said that a table or column is not there."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) in ("42P01", "42703")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
