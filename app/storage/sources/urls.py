"""Database URLs: what may be shown of them, and what makes two of them the same place."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.errors import UsageError
from app.storage.database import sqlalchemy_url

_SECRET: Final = ("password", "passwd", "secret", "token", "credential", "pwd")
_STARS: Final = "***"
_FILE: Final = "file:"


def parsed(uri: str) -> URL:
    """`uri` with its driver named. UsageError: it is no URL; the message does not repeat it."""
    try:
        url = make_url(sqlalchemy_url(uri))
    except (ArgumentError, ValueError):
        url = None
    if url is None or _holds_more_password(url):
        scheme = uri.partition("://")[0][:40]
        raise UsageError(
            f"the source {scheme}://… is no database URL; write it like "
            "postgresql://user@host:5432/name, with @ and / in a password as %40 and %2F"
        )
    return url


def _holds_more_password(url: URL) -> bool:
    """Whether a password went on behind an @ of its own: the host, or the database where a / came
    first, would hold the rest of it."""
    in_name = url.password is not None and "@" in (url.database or "")
    return "@" in (url.host or "") or in_name


def masked_url(uri: str) -> str:
    """`uri` as messages may show it."""
    url = parsed(uri)
    hidden = {name: _STARS for name in url.query if _is_secret(name)}
    shown = url.update_query_dict(hidden) if hidden else url
    text = shown.render_as_string(hide_password=True)
    return text.replace("postgresql+psycopg://", "postgresql://", 1)


def has_password(uri: str) -> bool:
    """Whether `uri` holds something that must not be written down."""
    url = parsed(uri)
    return url.password is not None or any(map(_is_secret, url.query))


def anchored(uri: str, base: Path) -> str:
    """`uri` for later and elsewhere: the file of an SQLite URL counts from `base`."""
    url = parsed(uri)
    if (path := file_of(url)) is None:
        return uri
    scheme = _FILE if (url.database or "").startswith(_FILE) else ""
    return uri.replace(f"///{url.database}", f"///{scheme}{(base / path).resolve()}", 1)


def file_of(url: URL) -> Path | None:
    """The file of an SQLite URL; None: another database, or one in memory."""
    name = url.database or ""
    if name.startswith(_FILE):
        # An address as SQLite has them; the queries of both are SQLAlchemy's.
        name = unquote(urlsplit(name).path)
        name = "" if url.query.get("mode") == "memory" else name
    if url.get_backend_name() != "sqlite" or name in ("", ":memory:"):
        return None
    return Path(name)


def place_parts(uri: str) -> tuple[str, ...]:
    """Server and database. Not who asks, nor how: a rotated password leads to the same place."""
    url = parsed(uri)
    host = url.host or str(url.query.get("host", ""))
    port = str(url.port or url.query.get("port", ""))
    file = file_of(url)
    name = (url.database or "") if file is None else str(file.resolve())
    return (url.get_backend_name(), host, port, name)


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in _SECRET)
