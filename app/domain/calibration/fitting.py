"""The server model of an endpoint, fitted to its measured steps by least squares.

A step lasts fixed + per running request + per prompt token read in it; before the first token comes
what every call costs besides (network, tokenizer). These are the constants of THROTTLE.md, less the
one for context, which short calls do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.domain.calibration.measured import Level, PromptPoint

_PARTS = ("fixed_ms", "per_running_ms", "per_prompt_token_ms", "overhead_ms")


@dataclass(frozen=True, slots=True)
class FitPoint:
    """One measured time beside what the model says."""

    kind: str
    """`step` or `first_token`."""
    at: float
    """Requests running, or tokens of the prompt."""
    measured_ms: float
    fitted_ms: float

    @property
    def residual_ms(self) -> float:
        return self.measured_ms - self.fitted_ms


@dataclass(frozen=True, slots=True)
class ServerFit:
    """The model's constants, none under 0, and how well they say again what was measured."""

    fixed_ms: float
    per_running_ms: float
    per_prompt_token_ms: float
    overhead_ms: float
    points: tuple[FitPoint, ...]

    @property
    def typical_error(self) -> float:
        """Root mean square of the residuals, as a share of the measured times."""
        shares = [point.residual_ms / point.measured_ms for point in self.points]
        return float(np.sqrt(np.mean(np.square(shares))))

    @property
    def r_squared(self) -> float:
        """Share of the variance that the model explains: 1 is all of it."""
        measured = np.array([point.measured_ms for point in self.points])
        spread = float(np.sum((measured - measured.mean()) ** 2))
        left = float(sum(point.residual_ms**2 for point in self.points))
        return 1.0 - left / spread if spread > 0 else 1.0

    def step_ms(self, running: float, prompt_tokens: float = 0.0) -> float:
        """How long a step with so many requests and prompt tokens lasts."""
        return (
            self.fixed_ms + self.per_running_ms * running + self.per_prompt_token_ms * prompt_tokens
        )


def fit(levels: Sequence[Level], prompts: Sequence[PromptPoint]) -> ServerFit | None:
    """The constants that fit best; None: fewer than two prompt lengths, or no level at all.

    Each time counts by its share, not by its milliseconds, so that long prompts do not drown the
    steps. With one level only, what a running request costs cannot be told from what is fixed.
    """
    if len(prompts) < 2 or not levels:
        return None
    rows = [[1.0, level.running, level.prompt_tokens_per_step, 0.0] for level in levels]
    rows += [[1.0, 1.0, point.prompt_tokens, 1.0] for point in prompts]
    times = [level.step_ms for level in levels] + [point.first_token_ms for point in prompts]
    matrix, measured = np.array(rows), np.array(times)
    allowed = [name != "per_running_ms" or len(levels) > 1 for name in _PARTS]
    constants = _without_negatives(matrix / measured[:, None], np.array(allowed))
    fitted = matrix @ constants
    points = [
        FitPoint("step", level.running, level.step_ms, float(value))
        for level, value in zip(levels, fitted, strict=False)
    ]
    points += [
        FitPoint("first_token", point.prompt_tokens, point.first_token_ms, float(value))
        for point, value in zip(prompts, fitted[len(levels) :], strict=True)
    ]
    fixed, running, prompt, overhead = (float(value) for value in constants)
    return ServerFit(fixed, running, prompt, overhead, tuple(points))


def _without_negatives(
    shares: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Least squares to 1 in each row. A constant that comes out negative (noise larger than its
    effect) is held at 0 and the others are fitted again."""
    used = allowed.copy()
    constants = np.zeros(shares.shape[1])
    while used.any():
        solved, *_ = np.linalg.lstsq(shares[:, used], np.ones(len(shares)), rcond=None)
        constants[:] = 0.0
        constants[used] = solved
        if (solved >= 0).all():
            break
        used[int(np.argmin(constants))] = False
    return constants
