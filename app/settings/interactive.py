"""What people's requests may take, and when they share a call."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.settings.group import Count, Group, Positive


class InteractiveSettings(Group):
    """`[interactive]`: what people get."""

    deadline_s: Positive = 120.0
    """A request that has waited longer than this is not started."""
    call_timeout_s: Positive = 120.0
    processes: Count | None = None
    """Interactive workers that `giveway up` and the compose file start; together they are as exact
    as one. None: half as many as the machine has cores, at least 1 and at most 4 (compose: 1)."""
    result_ttl_s: Positive = 3600.0
    keep_requests_h: Positive = 48.0
    """Rows of interactive_requests older than this are pruned."""


class MergingSettings(Group):
    """`[merging]`: small interactive embedding requests that arrive together become one call."""

    wait_ms: Annotated[float, Field(ge=0, le=100)] = 8.0
    """A request that comes while others are under way waits for more, until none has come for so
    long, and five times so long at most; a lone one does not wait. 0: nothing is merged."""
    most_texts: Count = 64
    """Texts in one merged call."""
