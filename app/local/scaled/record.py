"""`scaling.json`: which processes an agent has started, for the one that comes after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from app.errors import ConfigError
from app.local import leftovers
from app.local.leftovers import Birth
from app.local.scaled.member import Member

_FILE = "scaling.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """An endpoint's name and its process; None: that ended before it was seen."""

    name: str
    birth: Birth | None


def entry(member: Member) -> Entry:
    """What is written down of a member."""
    return Entry(member.name, member.birth)


def write(folder: Path, entries: Iterable[Entry]) -> None:
    """Replace the file as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{_FILE}.{os.getpid()}"
    beside.write_text(json.dumps([asdict(one) for one in entries]), encoding="utf-8")
    beside.replace(folder / _FILE)


def read(folder: Path) -> list[Entry]:
    """What an earlier agent has left; empty where there was none."""
    path = folder / _FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return [Entry(one["name"], one["birth"] and Birth(**one["birth"])) for one in raw]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; remove it") from error


def end_left(folder: Path) -> list[Entry]:
    """End what an earlier agent has left running; all that it wrote down."""
    entries = read(folder)
    found = (leftovers.process_of(one.birth) for one in entries if one.birth is not None)
    leftovers.end([process for process in found if process is not None])
    return entries
