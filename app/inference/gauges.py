"""What a model server says about its own load on /metrics (Prometheus text)."""

from __future__ import annotations

import math
import re
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
_PREEMPTIONS = ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total")
_KV_TOKENS = ("sglang:max_total_num_tokens",)
_CACHE_CONFIG = "vllm:cache_config_info"
_LABEL = re.compile(r'(\w+)="(\d+)"')


@dataclass(frozen=True, slots=True)
class Gauges:
    """`running` and `waiting` are requests in the engine, `kv_cache_use` a share in 0..1,
    `preemptions` those since the server began, `kv_capacity_tokens` what its KV memory holds.

    None where the server does not say.
    """

    running: float | None = None
    waiting: float | None = None
    kv_cache_use: float | None = None
    preemptions: float | None = None
    kv_capacity_tokens: float | None = None


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
        preemptions=_first(series, _PREEMPTIONS, sum),
        kv_capacity_tokens=_first(series, _KV_TOKENS, sum) or _vllm_kv_tokens(text),
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


def _vllm_kv_tokens(text: str) -> float | None:
    """Tokens of KV memory by the labels of vLLM's cache config, over all its engines."""
    sizes = []
    for line in text.splitlines():
        if line.startswith(_CACHE_CONFIG):
            told = {name: int(number) for name, number in _LABEL.findall(line)}
            whole = told.get("kv_cache_size_tokens")  # Newer ones say it outright.
            sizes.append(whole or told.get("num_gpu_blocks", 0) * told.get("block_size", 0))
    return float(sum(sizes)) or None
