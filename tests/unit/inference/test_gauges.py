"""What model servers say on /metrics, in their own words."""

from __future__ import annotations

from app.inference.gauges import Gauges, gauges


def test_vllm_tells_preemptions_and_the_size_of_its_kv_memory() -> None:
    told = gauges(
        'vllm:num_preemptions_total{engine="0",model_name="m"} 3.0\n'
        'vllm:num_preemptions_total{engine="1",model_name="m"} 4.0\n'
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="573",x="True"} 1\n'
    )

    assert told == Gauges(preemptions=7, kv_capacity_tokens=16 * 573)


def test_a_newer_vllm_says_its_tokens_outright() -> None:
    line = (
        'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="1000",num_gpu_blocks="62"} 1'
    )

    assert gauges(line).kv_capacity_tokens == 1000


def test_a_size_that_is_not_known_yet_is_none() -> None:
    line = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1'

    assert gauges(line).kv_capacity_tokens is None


def test_sglang_tells_the_same_in_its_own_words() -> None:
    told = gauges(
        "sglang:num_running_reqs 2\nsglang:num_queue_reqs 1\nsglang:token_usage 0.5\n"
        "sglang:max_total_num_tokens 471258\nsglang:num_retracted_requests_total 9\n"
    )

    assert told == Gauges(2, 1, 0.5, 9, 471258)
