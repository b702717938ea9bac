"""Two runs over the same items: paired tests, and the items on which they differ.

Items are the same where question and expected answer are, under the same key or, in files whose
order changed, under another. Rows with the same content are repeats of one item, and one cluster:
it counts once, with the mean of its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.domain.evaluation.equivalence import Equivalence, equivalence
from app.domain.evaluation.intervals import bootstrapped, of_mean
from app.domain.evaluation.runs import RunItem


@dataclass(frozen=True, slots=True)
class Flip:
    """An item whose score changed from the first run to the second; `key` is that of the first,
    `keys` are those of all its rows in both, by pairs."""

    key: str
    before: float
    after: float
    keys: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric over the items that both runs scored: means, the mean difference (second less
    first) with its interval, and the p-value of `test`. Of a rate `lost` and `won` are the items
    that only the first and only the second had right; of others those that fell and rose.
    `equivalence` is there where a margin was asked for."""

    n: int
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    test: str
    lost: int
    won: int
    flips: tuple[Flip, ...]
    equivalence: Equivalence | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`common` rows are in both runs with the same question and expected answer, and make up
    `clusters` items; `changed` have the same key and another content, and are left out."""

    common: int
    clusters: int
    changed: int
    only_first: int
    only_second: int
    metrics: Mapping[str, Difference]

    @property
    def is_whole(self) -> bool:
        """Whether both runs are over the same items."""
        return not (self.changed or self.only_first or self.only_second)


_Pair = tuple[RunItem, RunItem]


def compared(
    first: Sequence[RunItem],
    second: Sequence[RunItem],
    rates: Mapping[str, bool],
    margins: Mapping[str, float] | None = None,
) -> Comparison:
    """What the second run says against the first. `rates`: the metrics that both have; `margins`:
    by which metric the second may be worse."""
    pairs, before, after = _matched(first, second)
    clusters: dict[str, list[_Pair]] = defaultdict(list)
    for one, other in pairs:
        clusters[one.content].append((one, other))
    grouped = list(clusters.values())
    given = margins or {}
    changed = len(before.keys() & after.keys())
    return Comparison(
        common=len(pairs),
        clusters=len(grouped),
        changed=changed,
        only_first=len(before) - changed,
        only_second=len(after) - changed,
        metrics={
            name: _difference(name, grouped, given.get(name), rate=rate)
            for name, rate in rates.items()
        },
    )


def _matched(
    first: Sequence[RunItem], second: Sequence[RunItem]
) -> tuple[list[_Pair], dict[str, RunItem], dict[str, RunItem]]:
    """The pairs, and what is left of both runs by key."""
    before, after = ({item.key: item for item in run} for run in (first, second))
    same = [key for key in before if key in after and before[key].content == after[key].content]
    pairs = [(before.pop(key), after.pop(key)) for key in same]
    by_content: dict[str, list[str]] = defaultdict(list)
    for key, item in reversed(after.items()):
        by_content[item.content].append(key)
    for key, item in list(before.items()):
        if by_content[item.content]:
            pairs.append((before.pop(key), after.pop(by_content[item.content].pop())))
    return pairs, before, after


def _difference(
    name: str, clusters: Sequence[Sequence[_Pair]], margin: float | None, *, rate: bool
) -> Difference:
    scored = [flip for one in clusters if (flip := _flip(name, one)) is not None]
    flips = tuple(
        sorted((f for f in scored if f.before != f.after), key=lambda f: -abs(f.after - f.before))
    )
    lost = sum(flip.after < flip.before for flip in flips)
    won = len(flips) - lost
    changes = np.asarray([flip.after - flip.before for flip in scored], dtype=np.float64)
    is_binary = rate and all({flip.before, flip.after} <= {0.0, 1.0} for flip in scored)
    interval = of_mean([float(change) for change in changes])
    return Difference(
        n=len(scored),
        first=_mean([flip.before for flip in scored]),
        second=_mean([flip.after for flip in scored]),
        difference=_mean([float(change) for change in changes]),
        low=interval.low if flips else None,
        high=interval.high if flips else None,
        p=mcnemar(lost, won) if is_binary else paired_bootstrap(changes),
        test="mcnemar_exact" if is_binary else "paired_bootstrap",
        lost=lost,
        won=won,
        flips=flips,
        equivalence=None if margin is None else equivalence(changes, margin, binary=is_binary),
    )


def _flip(name: str, cluster: Sequence[_Pair]) -> Flip | None:
    """The item's scores in both runs, the means of its rows that both scored; None: none is."""
    scored = [
        (one.key, other.key, before, after)
        for one, other in cluster
        if (before := _value(one, name)) is not None and (after := _value(other, name)) is not None
    ]
    if not scored:
        return None
    befores, afters = [row[2] for row in scored], [row[3] for row in scored]
    keys = tuple((row[0], row[1]) for row in scored)
    return Flip(keys[0][0], sum(befores) / len(scored), sum(afters) / len(scored), keys)


def mcnemar(lost: int, won: int) -> float:
    """The exact two-sided p-value of McNemar's test: flips in both directions are a fair coin."""
    from scipy.stats import binomtest

    return 1.0 if lost + won == 0 else float(binomtest(won, lost + won, 0.5).pvalue)


def paired_bootstrap(changes: np.ndarray) -> float | None:
    """The two-sided p-value that the mean change is nought, from resampled items; None: too few."""
    if changes.size < 2:
        return None
    if not changes.any():
        return 1.0
    if changes.size > _MOST:
        return _z_test(changes)
    means = bootstrapped(changes)[1]
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (means.size + 1))


_MOST = 5_000
"""Past so many items the mean is as good as normal; see `intervals`."""


def _z_test(changes: np.ndarray) -> float:
    from scipy.stats import norm

    error = changes.std(ddof=1) / np.sqrt(changes.size)
    return float(2 * norm.sf(abs(changes.mean()) / error)) if error > 0 else 0.0


def _value(item: RunItem, name: str) -> float | None:
    marks = item.marks.get(name)
    return None if marks is None else marks.value


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
