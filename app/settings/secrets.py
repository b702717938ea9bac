"""Showing secrets: of an address everything but user's password and query, of the rest nothing."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import SecretStr

MASK = "***"


def shown(secret: SecretStr) -> str:
    """`secret` as people may see it: `postgresql://user:***@host:5432/name`, else `***`."""
    value = secret.get_secret_value()
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        return MASK
    # An @ after the host: a / ? or # in the password was not escaped, and what looks like host and
    # port is a part of it.
    if "://" not in value or not host or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return MASK
    who = ""
    if parts.username or parts.password:
        # A name without a password may be a token.
        who = f"{parts.username or ''}:{MASK}@" if parts.password else f"{MASK}@"
    host = f"[{host}]" if ":" in host else host
    where = host if port is None else f"{host}:{port}"
    query = f"?{MASK}" if parts.query else ""
    return f"{parts.scheme}://{who}{where}{parts.path}{query}"
