"""Pictures that are the same for the same figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def pyplot() -> Any | None:
    """Matplotlib's, without a screen. None: it is not installed (extra `charts`)."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("agg")
    from matplotlib import pyplot as made

    # An SVG's ids and its date would differ each time.
    matplotlib.rcParams.update({"svg.hashsalt": "giveway", "svg.fonttype": "none", "font.size": 10})
    return made


def save(figures: Iterable[tuple[str, Any]], folder: Path, made: Any) -> list[Path]:
    """Write each figure that `made`, which is pyplot, has drawn as the file of that name; the
    files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures:
        path = folder / name
        figure.savefig(path, metadata={"Date": None})
        made.close(figure)
        written.append(path)
    return written
