"""The page /metrics: vLLM's names for the load, and counts of the simulated endpoint's own."""

from __future__ import annotations

from app.inference.simulated.engine import Engine
from app.inference.simulated.ledger import Ledger
from app.inference.simulated.runner import Runner

_BLOCK = 16


def load_page(model: str, engine: Engine, runner: Runner, ledger: Ledger) -> str:
    """Prometheus text."""
    label = f'{{model_name="{model}"}}'
    blocks = engine.costs.kv_tokens // _BLOCK
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{label} {len(engine.running)}",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{label} {len(engine.waiting)}",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{label} {engine.kv_use:.6f}",
        "# TYPE vllm:num_preemptions_total counter",
        f"vllm:num_preemptions_total{label} {engine.preemptions}",
        "# TYPE vllm:cache_config_info gauge",
        f'vllm:cache_config_info{{block_size="{_BLOCK}",num_gpu_blocks="{blocks}"}} 1',
        "# TYPE simulated_embeddings_inputs_total counter",
        f"simulated_embeddings_inputs_total {ledger.inputs}",
        "# TYPE simulated_steps_total counter",
        f"simulated_steps_total {runner.steps}",
        "# TYPE simulated_step_seconds_total counter",
        f"simulated_step_seconds_total {runner.step_seconds:.6f}",
        "# HELP simulated_lost_seconds_total Time by which the machine was too slow for the model.",
        "# TYPE simulated_lost_seconds_total counter",
        f"simulated_lost_seconds_total {runner.lost_seconds:.6f}",
        "# TYPE simulated_requests_total counter",
    ]
    lines += [
        f'simulated_requests_total{{path="{path}",outcome="{outcome}"}} {count}'
        for (path, outcome), count in sorted(ledger.outcomes.items())
    ]
    return "\n".join(lines) + "\n"
