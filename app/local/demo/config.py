"""The demo's giveway.toml: one endpoint, reached through two pools."""

from __future__ import annotations

PLACES = 8
SPEED = 0.5
"""25 ms a step: a larger model than the simulated endpoint's usual one, so that on two cores the
server is what is scarce, and not our own processes."""
TARGET_P95_MS = 500.0

GIVEWAY, UNTHROTTLED = "main", "unthrottled"
"""The pools. Both are the same endpoint; only how batch is held back differs."""

CHAT = {GIVEWAY: "fake-chat", UNTHROTTLED: "fake-chat-unthrottled"}
EMBED = {GIVEWAY: "fake-embed", UNTHROTTLED: "fake-embed-unthrottled"}

_PEOPLE_MOST = 64
_CONFIG = """\
# The settings of `giveway demo`. Both endpoints below are the same simulated server with {places}
# places; a model's name decides through which pool a request goes.

# Giveway's way: people and batch together never fill more than the server's places, one place is
# kept for people, and batch's limit follows from people's latency.
[[pools]]
name = "{giveway}"
total = {places}
reserve = 1
target_p95_ms = {target:g}

# What there is without it: {batch} batch requests in flight whenever there is work, people's
# requests sent as they come, and the server's own first-come queue to sort them out.
[[pools]]
name = "{unthrottled}"
policy = "unlimited"
total = {total}
reserve = {people}
batch_max = {batch}
target_p95_ms = {target:g}

[[endpoints]]
name = "simulated"
kind = "simulated"
pool = "{giveway}"
base_url = "{url}"
models = ["{chat}", "{embed}"]
max_concurrency = {places}

[[endpoints]]
name = "simulated-unthrottled"
kind = "simulated"
pool = "{unthrottled}"
base_url = "{url}"
models = ["{chat_unthrottled}", "{embed_unthrottled}"]
max_concurrency = {total}

# Short micro-batches: nobody can be let in while one is being computed.
[batch]
micro_batch_items = {micro_batch_items}
micro_batch_tokens = {micro_batch_tokens}

[throttle]
window_s = 5
"""

MICRO_BATCH_ITEMS = 16
MICRO_BATCH_TOKENS = 256


def config_toml(endpoint_port: int) -> str:
    """The file's text, with the simulated endpoint at `endpoint_port`."""
    batch = PLACES - 1
    return _CONFIG.format(
        places=PLACES,
        giveway=GIVEWAY,
        unthrottled=UNTHROTTLED,
        target=TARGET_P95_MS,
        batch=batch,
        people=_PEOPLE_MOST,
        total=_PEOPLE_MOST + batch,
        url=f"http://127.0.0.1:{endpoint_port}/v1",
        chat=CHAT[GIVEWAY],
        embed=EMBED[GIVEWAY],
        chat_unthrottled=CHAT[UNTHROTTLED],
        embed_unthrottled=EMBED[UNTHROTTLED],
        micro_batch_items=MICRO_BATCH_ITEMS,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
    )
