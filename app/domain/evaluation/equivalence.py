"""No worse by more than a margin: two one-sided tests over paired items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What two one-sided tests say at a `margin` (Schuirmann 1987). `p_worse` small: the second is
    no worse than the first by the margin; `p_better` small: nor better by it; `p` is the larger,
    that of both. None: too few items."""

    margin: float
    p_worse: float | None
    p_better: float | None
    test: str

    @property
    def p(self) -> float | None:
        """Of equivalence."""
        if self.p_worse is None or self.p_better is None:
            return None
        return max(self.p_worse, self.p_better)

    @property
    def no_worse(self) -> bool:
        """Whether it is shown that the second is no worse by the margin."""
        return self.p_worse is not None and self.p_worse < ALPHA

    @property
    def equivalent(self) -> bool:
        """Whether it is shown that they differ by less than the margin."""
        return self.p is not None and self.p < ALPHA

    @property
    def word(self) -> str:
        """What is shown: equivalent, no worse, or not shown."""
        if self.equivalent:
            return "equivalent"
        return "no worse" if self.no_worse else "not shown"


def equivalence(changes: np.ndarray, margin: float, *, binary: bool) -> Equivalence:
    """Of the change of each item, second less first, between -1 and 1. `binary`: each is -1, 0 or
    1, and Tango's score test holds for few flips too; else Student's t over items."""
    n = int(changes.size)
    if n < 2 or (changes.any() and np.ptp(changes) == 0):  # too few, or too alike, to say
        return Equivalence(margin, None, None, "none")
    if binary or not changes.any():
        # Where nothing changed a t-test would be sure of what it cannot know.
        won, lost = int((changes > 0).sum()), int((changes < 0).sum())
        worse, better = tango(lost, won, n, margin), tango(won, lost, n, margin)
        return Equivalence(margin, worse, better, "tost_tango")
    return Equivalence(margin, _t(changes, margin), _t(-changes, margin), "tost_t")


def tango(lost: int, won: int, n: int, margin: float) -> float:
    """The one-sided p-value that a rate fell by `margin` or more, `lost` and `won` being the pairs
    that flipped, of `n` (Tango 1998): small where it did not."""
    from scipy.stats import norm

    a = 2 * n
    b = -won - lost + (2 * n - lost + won) * margin
    c = -won * margin * (1 - margin)
    # The share of pairs that the second alone has right, were the fall exactly the margin.
    share = max(0.0, (math.sqrt(b * b - 4 * a * c) - b) / (2 * a))
    spread = math.sqrt(n * (2 * share + margin * (1 - margin)))
    return float(norm.sf((won - lost + n * margin) / spread))


def _t(changes: np.ndarray, margin: float) -> float:
    """The one-sided p-value that the mean change is -margin or less."""
    from scipy.stats import t

    error = float(changes.std(ddof=1)) / math.sqrt(changes.size)
    above = float(changes.mean()) + margin
    return float(t.sf(above / error, changes.size - 1))
