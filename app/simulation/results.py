"""What a run has shown, in the shape that `giveway simulate --json` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunResult:
    """Both sides of one run. Shares are 0 to 1; `None` where a figure does not apply.

    `…_without_batch` are of the same people (same seed) alone.
    """

    policy: str
    workload: str
    seed: int
    fault: str | None
    on_target: float
    on_target_without_batch: float
    on_target_oracle: float
    on_target_after_surges: float | None
    """Of those who came in the 20 s after a surge."""
    work_share_of_oracle: float
    work_share_of_dedicated: float
    """Of what batch does in the same engine with every place its own and nobody else there."""
    batch_tokens_per_s: float
    wasted_share: float
    """Batch tokens thrown away by closing calls, as a share of those done."""
    settle_s: float | None
    limit_swing: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p50_ms_without_batch: float | None
    p95_ms_without_batch: float | None
    p99_ms_without_batch: float | None
    first_token_p50_ms: float | None
    first_token_p95_ms: float | None
    first_token_p99_ms: float | None
    first_token_p95_ms_without_batch: float | None
    per_token_p50_ms: float | None
    per_token_p95_ms: float | None
    per_token_p99_ms: float | None
    per_token_p95_ms_without_batch: float | None
    requests: int
    signs: tuple[str, str, str]
    """People's P95 not over target for long; the backlog still moving; the total never passed."""
    signs_kept: tuple[bool, bool, bool]


def document(runs: Sequence[RunResult]) -> dict[str, Any]:
    """The JSON document: `{"runs": [...]}`."""
    return {"runs": [dataclasses.asdict(run) for run in runs]}
