"""Rules for the broker: it answers, it forgets nothing, it gives no message out twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain.examination.findings import Code, Finding, counted, error, span, warning, well

_FULL = 0.8
NO_EVICTION = "noeviction"


@dataclass(frozen=True, slots=True)
class Broker:
    """`where` without a password. `why_not` None: it answers. `policy` is Redis's maxmemory-policy,
    None on RabbitMQ; `most_bytes` 0: no bound. `visible_s`: after so long Redis gives a message
    out again; None: never. `waiting` messages by queue, as far as known. `otherwise`: queues that
    are not as we would declare them, and how they differ."""

    where: str
    why_not: str | None = None
    server: str = ""
    answers_ms: float = 0.0
    policy: str | None = None
    used_bytes: int = 0
    most_bytes: int = 0
    read_only: bool = False
    visible_s: float | None = None
    waiting: Mapping[str, int] = field(default_factory=dict)
    otherwise: Mapping[str, str] = field(default_factory=dict)


def broker(one: Broker) -> list[Finding]:
    """It answers and takes messages."""
    if one.why_not is not None:
        right = "start it, or set GIVEWAY_BROKER__URL to one that answers from here"
        return [error(Code.BROKER, one.where, one.why_not, right)]
    if one.read_only:
        what, right = f"{one.server} is a replica: it takes no messages", "name the primary"
        return [error(Code.BROKER, one.where, what, right)]
    queues = ", ".join(f"{name} {count:,}" for name, count in one.waiting.items())
    told = f"; waiting: {queues}" if queues else ""
    return [well(Code.BROKER, one.where, f"{one.server} answers in {one.answers_ms:.0f} ms{told}")]


def queues(one: Broker) -> list[Finding]:
    """What others declared before us is used as it is; who declares it our way is refused."""
    if one.why_not is not None:
        return []
    found = [
        warning(
            Code.QUEUES,
            f"queue {name}",
            f"another program declared it first: {differs}; it is used as it is, but RabbitMQ "
            "refuses whoever declares it plainly",
            f"when it is empty and nobody uses it: rabbitmqctl delete_queue {name}, then giveway "
            "up; or give Giveway a virtual host of its own",
        )
        for name, differs in one.otherwise.items()
    ]
    return found or [well(Code.QUEUES, "queues", "none is declared otherwise")]


def eviction(one: Broker) -> list[Finding]:
    """A full Redis must refuse, not forget; and it should not be full."""
    if one.policy is None:
        return []
    where, found = "maxmemory", []
    if one.policy != NO_EVICTION:
        # Queues have no time to live: a volatile policy takes answers only. Without a bound nothing
        # is evicted, until somebody sets one.
        make = error if one.most_bytes and one.policy.startswith("allkeys") else warning
        what = f"maxmemory-policy is {one.policy}: an evicted queue is lost requests"
        found.append(make(Code.EVICTION, where, what, "CONFIG SET maxmemory-policy noeviction"))
    if one.most_bytes and one.used_bytes >= _FULL * one.most_bytes:
        what = f"{one.used_bytes / one.most_bytes:.0%} of maxmemory is used; a full one refuses"
        found.append(warning(Code.EVICTION, where, what, "give it more memory"))
    return found or [well(Code.EVICTION, where, "nothing is ever evicted")]


def visibility(one: Broker, longest_s: float) -> list[Finding]:
    """Redis waits longer than any message is held, or it gives the same message out again."""
    if one.visible_s is None:
        return []
    where, told = "visibility", f"{span(one.visible_s)}, the longest run {span(longest_s)}"
    if one.visible_s > longest_s:
        return [well(Code.VISIBILITY, where, f"a message comes again after {told}")]
    what = f"a message comes again after {told}: it would run twice"
    right = "lower [interactive] deadline_s or call_timeout_s, or raise visibility_timeout"
    return [error(Code.VISIBILITY, where, what, right)]


def ticks(decided_s: float | None, valid_for_s: float, waiting: Mapping[str, int]) -> list[Finding]:
    """Beat ticks and the control worker heeds it: `decided_s` since the newest decision of any
    pool, None: there was never one."""
    where = "ticks"
    if decided_s is not None and decided_s <= valid_for_s:
        return [well(Code.TICKS, where, f"the last decision is {decided_s:.1f} s old")]
    old = (
        "nothing was ever decided"
        if decided_s is None
        else (f"the last decision is {span(decided_s)} old")
    )
    count = waiting.get("control")
    if count is None:
        right = "see that beat and the control worker run"
    elif count:
        old += f", and {counted(count, 'tick waits', 'ticks wait')}"
        right = "start the control worker: nobody takes beat's ticks"
    else:
        right = "start beat: no tick waits in the control queue"
    return [error(Code.TICKS, where, f"{old}, so batch stands at its floor", right)]
