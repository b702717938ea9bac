"""Webhooks: telling a job's end to somebody else's server, signed, until it has been heard.

The body and the signature follow Standard Webhooks: a `type`, a `timestamp` and `data`.
"""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum
from typing import Any

from app.domain.jobs import Job, Progress
from app.domain.retry import RetryPolicy

FIRST_PAUSE_S, _FACTOR, _LONGEST_S = 5.0, 4.0, 4 * 3600.0
_GONE = 410
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


BEGINNING = "whsec_"
LEAST_KEY_BYTES = 24
"""As the specification of Standard Webhooks has it: 24 to 64 bytes of chance."""


def signing_key(secret: str) -> bytes | None:
    """The key that `secret` stands for: `whsec_` and base64, with or without its padding, and
    nothing around it. None: it is no secret, which a lenient decoder would make a key of all the
    same, and another one than the receiver's."""
    if not secret.startswith(BEGINNING):
        return None
    text = secret.removeprefix(BEGINNING)
    padded = text if text.endswith("=") else text + "=" * (-len(text) % 4)
    try:
        key = base64.b64decode(padded.encode("ascii"), validate=True)
    except ValueError:  # Of characters that are not ASCII, and of what is no base64.
        return None
    return key if len(key) >= LEAST_KEY_BYTES else None


def no_secret(variable: str) -> str:
    """What is said of a variable that holds none."""
    return (
        f"{variable} holds no secret: it wants {BEGINNING} and base64 of {LEAST_KEY_BYTES} "
        "bytes or more, and nothing around it"
    )


class DeliveryState(StrEnum):
    """WAITING: to be sent at its time. DELIVERED: heard. GIVEN_UP: too often in vain."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Heard:
    """The receiver took it."""


@dataclass(frozen=True, slots=True)
class Again:
    """It is to be sent again after so long."""

    after_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It is not sent again."""


def body(job: Job, progress: Progress) -> dict[str, Any]:
    """What is told of a job that has ended: ids, state and counts; never a text of its items."""
    ended = job.finished_at.astimezone(UTC).isoformat() if job.finished_at else None
    return {
        "type": f"job.{job.state}",
        "timestamp": ended,
        "data": {
            "job": job.id,
            "key": job.key,
            "kind": job.kind,
            "state": job.state.value,
            "total": progress.total,
            "done": progress.done,
            "failed": progress.failed,
            "unchanged": progress.unchanged,
            "empty": progress.empty,
            "pending": progress.pending,
        },
    }


def after_attempt(
    status: int | None, attempt: int, policy: RetryPolicy, asked_s: float | None, jitter: float
) -> Heard | Again | GiveUp:
    """What follows the `attempt`-th attempt (1 is the first), answered with `status`.

    None: no answer at all. 2xx is heard; 410 says that nobody listens there any more; all else is
    tried again. `asked_s` is what a Retry-After asked for. `jitter` is in [0, 1).
    """
    if status is not None and 200 <= status < 300:
        return Heard()
    if status == _GONE or attempt >= policy.max_attempts:
        return GiveUp()
    pause_s = min(_LONGEST_S, policy.base_s * _FACTOR ** (attempt - 1)) * (0.75 + 0.5 * jitter)
    return Again(max(pause_s, min(asked_s or 0.0, _LONGEST_S)))


def is_private(address: str) -> bool:
    """Whether the address is inside: loopback, private, link-local or otherwise not global."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = _carried(found) or found
    return not found.is_global or found.is_multicast


def _carried(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that is meant: mapped, 6to4 (RFC 3056) or NAT64 (RFC 6052)."""
    if found in _NAT64:
        return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found.ipv4_mapped or found.sixtofour
