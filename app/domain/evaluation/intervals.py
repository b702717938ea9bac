"""Confidence intervals: exact for rates, by bootstrap for means."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9_999
_SEED = 20_040_701
_MOST_BOOTSTRAPPED = 5_000
"""The BCa bootstrap leaves out each item once, so that its work grows with their square; of more
items the mean is as good as normal."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the true figure is, in 95 of 100 such runs. None: too few
    items, or too alike, to say. `method`:
    binomial_exact, bootstrap_bca, normal, or none."""

    low: float | None
    high: float | None
    method: str


NOTHING = Interval(None, None, "none")


def of_rate(correct: int, n: int) -> Interval:
    """Clopper and Pearson's exact interval of a rate."""
    from scipy.stats import binomtest

    if n == 0:
        return NOTHING
    found = binomtest(correct, n).proportion_ci(CONFIDENCE, method="exact")
    return Interval(float(found.low), float(found.high), "binomial_exact")


def of_mean(values: Sequence[float]) -> Interval:
    """The interval of a mean; the same values give the same interval.

    Where all values are 0 or all are 1 a bootstrap would be sure of what it cannot know; then the
    exact interval of a rate holds for any score between 0 and 1.
    """
    n, first = len(values), values[0] if values else 0.0
    if n < 2:
        return NOTHING
    if min(values) == max(values):
        return of_rate(int(first) * n, n) if first in (0.0, 1.0) else NOTHING
    array = np.asarray(values, dtype=np.float64)
    if n > _MOST_BOOTSTRAPPED:
        return _normal(array)
    bounds = bootstrapped(array)[0]
    return bounds if bounds.low is not None else _normal(array)


def bootstrapped(array: np.ndarray) -> tuple[Interval, np.ndarray]:
    """The BCa interval of the mean (Efron 1987), and the means of all resamples.

    Bounds are None where the data are too few or too alike for it.
    """
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        # It warns of values that are too alike, and gives NaN, which is looked at below.
        warnings.simplefilter("ignore")
        found = bootstrap(
            (array,),
            np.mean,
            n_resamples=RESAMPLES,
            batch=_AT_ONCE,
            vectorized=True,
            axis=-1,
            confidence_level=CONFIDENCE,
            method="BCa",
            rng=np.random.default_rng(_SEED),
        )
    low, high = (float(bound) for bound in found.confidence_interval)
    means = np.asarray(found.bootstrap_distribution)
    if not (np.isfinite(low) and np.isfinite(high)):
        return NOTHING, means
    return Interval(low, high, "bootstrap_bca"), means


def _normal(array: np.ndarray) -> Interval:
    from scipy.stats import norm

    half = float(norm.ppf(0.5 + CONFIDENCE / 2) * array.std(ddof=1) / np.sqrt(array.size))
    mean = float(array.mean())
    return Interval(mean - half, mean + half, "normal")
