"""What surrounds the work on jobs: their kinds, who is told their end, how long they are kept."""

from __future__ import annotations

from app.settings.group import Count, Group, Positive


class KindsSettings(Group):
    """`[kinds]`: kinds of your own."""

    modules: tuple[str, ...] = ()
    """Modules with a `KIND`, by their import names."""


class WebhookSettings(Group):
    """`[webhooks]`: telling a job's end to other servers, signed by the standard."""

    max_attempts: Count = 8
    """After so many in vain a webhook is given up."""
    timeout_s: Positive = 10.0
    """How long the other server may take to answer."""
    allow_private: bool = True
    """Whether addresses inside this network may be told."""


class RetentionSettings(Group):
    """`[retention]`: how long what is done is kept."""

    keep_jobs_days: Positive = 30.0
    """Items and results of jobs that ended longer ago are deleted; vectors stay."""
    keep_events_days: Positive = 30.0
    """The log of events, which reports are made of."""
    keep_deliveries_days: Positive = 7.0
    """Webhooks that were delivered or given up."""
