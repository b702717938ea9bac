"""Webhooks: telling a job's end to somebody else's server, signed, until it has been heard."""

from __future__ import annotations

from enum import StrEnum


class DeliveryState(StrEnum):
    """WAITING: to be sent at its time. DELIVERED: heard. GIVEN_UP: too often in vain."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"
