"""What a model server says about its own load on /metrics (Prometheus text)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_RUNNING = ("vllm:num_requests_running", "llamacpp:requests_processing", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "llamacpp:requests_deferred", "sglang:num_queue_reqs")
_KV_USE = (
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",  # vLLM before 0.10
    "llamacpp:kv_cache_usage_ratio",
    "sglang:token_usage",
)


@dataclass(frozen=True, slots=True)
class Gauges:
    """`running` and `waiting` are requests in the engine, `kv_cache_use` a share in 0..1.

    None where the server does not say.
    """

    running: float | None = None
    waiting: float | None = None
    kv_cache_use: float | None = None


def gauges(text: str) -> Gauges:
    """The gauges in a page of Prometheus text. Several series of one name (engines) are summed;
    of the KV use the fullest counts."""
    series: dict[str, list[float]] = {}
    for line in text.splitlines():
        name, value = _sample(line)
        if value is not None:
            series.setdefault(name, []).append(value)
    return Gauges(
        running=_first(series, _RUNNING, sum),
        waiting=_first(series, _WAITING, sum),
        kv_cache_use=_first(series, _KV_USE, max),
    )


def _sample(line: str) -> tuple[str, float | None]:
    """Name and value of one line; the value is None for comments and for what is no number."""
    if not line or line.startswith("#"):
        return "", None
    name, _, rest = line.partition(" ")
    if "{" in line:
        name = line.partition("{")[0]
        rest = line.rpartition("}")[2]
    try:
        value = float(rest.split()[0])
    except (ValueError, IndexError):
        return name, None
    return name, value if math.isfinite(value) else None


def _first(
    series: dict[str, list[float]],
    names: Iterable[str],
    merged: Callable[[list[float]], float],
) -> float | None:
    for name in names:
        if name in series:
            return float(merged(series[name]))
    return None
