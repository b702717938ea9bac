"""Files that a `kill -9` may leave broken, put out of the way before the next start."""

from __future__ import annotations

import dbm
from pathlib import Path

from app.clock import now


def without_schedule(schedule: Path) -> None:
    """Beat begins anew: it only ticks, so it has nothing to remember."""
    schedule.parent.mkdir(parents=True, exist_ok=True)
    for path in schedule.parent.glob(f"{schedule.name}*"):
        path.unlink(missing_ok=True)


def readable_history(history: Path) -> None:
    """Flower's file is one it can open, or moved aside as `flower.db.broken-…`."""
    history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if dbm.whichdb(str(history)) != "":
        return  # None: it is not there yet
    stamp = now().strftime("%Y%m%dT%H%M%S")
    for path in history.parent.glob(f"{history.name}*"):
        if ".broken-" not in path.name:
            path.replace(path.with_name(f"{path.name}.broken-{stamp}"))
