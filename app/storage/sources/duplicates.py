"""Duplicates: which keys of a file were seen before, and where, in 16 bytes a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FANOUT: Final = 4
"""A run is merged into the one before it while that is less than so many times as long."""


class SeenKeys:
    """Keys seen so far, as sorted runs of 64-bit hashes with the line of each.

    Python's own keyed hash of text serves: the odds that it takes two of a million keys for one
    are 1 in 37 million, and nobody can make a file for which it does.
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def add(self, keys: Sequence[str], lines: Sequence[int]) -> dict[int, int]:
        """Remember `keys`, and answer which were there: index in `keys` to the earlier line."""
        if not keys:
            return {}
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
        order = np.argsort(hashes, kind="stable")
        run = hashes[order], np.asarray(lines, np.int64)[order]
        found = _within(run, order) | self._before(hashes)
        self._runs.append(run)
        self._merge()
        return found

    def _before(self, hashes: NDArray[np.int64]) -> dict[int, int]:
        found: dict[int, int] = {}
        for known, lines in reversed(self._runs):
            at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            for index in np.flatnonzero(known[at] == hashes).tolist():
                found[index] = int(lines[at[index]])
        return found

    def _merge(self) -> None:
        while len(self._runs) > 1 and len(self._runs[-2][0]) < _FANOUT * len(self._runs[-1][0]):
            (later, later_lines), (earlier, earlier_lines) = self._runs.pop(), self._runs.pop()
            hashes = np.concatenate([earlier, later])
            order = np.argsort(hashes, kind="stable")
            lines = np.concatenate([earlier_lines, later_lines])
            self._runs.append((hashes[order], lines[order]))


def _within(
    run: tuple[NDArray[np.int64], NDArray[np.int64]], order: NDArray[np.intp]
) -> dict[int, int]:
    """Doubles inside one batch: index to the line of the first of them."""
    hashes, lines = run
    found: dict[int, int] = {}
    for place in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
        first = int(np.searchsorted(hashes, hashes[place]))
        found[int(order[place + 1])] = int(lines[first])
    return found
