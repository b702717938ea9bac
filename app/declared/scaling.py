"""How each pool is scaled that has a table `[[scaling]]`."""

from __future__ import annotations

from app.domain.autoscale import Rules
from app.services.scaling import Target
from app.settings import ScalingSettings, Settings


def targets_of(settings: Settings) -> list[Target]:
    """A target a table, in their order."""
    return [_target(one) for one in settings.scaling]


def _target(one: ScalingSettings) -> Target:
    rules = Rules(
        minimum=one.minimum,
        maximum=one.maximum,
        backlog_per_endpoint=one.backlog_per_endpoint,
        oldest_wait_s=one.oldest_wait_s,
        idle_share=one.idle_share,
        hold_s=one.hold_s,
        out_cooldown_s=one.out_cooldown_s,
        in_cooldown_s=one.in_cooldown_s,
        start_timeout_s=one.start_timeout_s,
    )
    return Target(
        one.pool,
        rules,
        one.max_concurrency,
        waits_for_start=one.target == "process",
        hook=one.command if one.target == "hook" else (),
        hook_timeout_s=one.hook_timeout_s,
    )
