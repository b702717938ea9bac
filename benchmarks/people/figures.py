"""From what each waited to the figures of a run, and what a contender adds: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.domain.load import percentile
from benchmarks.people.plan import DIRECT


@dataclass(frozen=True, slots=True)
class Run:
    """A leg's figures. Waits count from when a request was due; percentiles are of those that went
    well, None where none did.

    `cpu_ms_per_request` is of the processes that serve: the workers of *celery*, the interactive
    workers of *giveway*; of *direct* and *lane*, which have none, the process that asks.
    `caller_cpu_ms_per_request`: of the process that asks.
    `round_trips_per_request`: to Postgres, of those who serve; None where no proxy counted them.
    """

    contender: str
    rps: float
    database_rtt_ms: float | None
    sent: int
    ok: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    cpu_ms_per_request: float
    caller_cpu_ms_per_request: float
    all_cpu_ms_per_request: float | None
    round_trips_per_request: float | None
    cores_busy: bool
    seconds: float
    late_p99_ms: float | None
    """How late requests left the generator; much of it voids a run."""


def run(
    contender: str,
    rps: float,
    seconds: float,
    waits_ms: Sequence[float | None],
    late_ms: Sequence[float],
    *,
    cpu_s: float,
    caller_cpu_s: float,
    all_cpu_s: float | None = None,
    database_rtt_ms: float | None = None,
    round_trips: int | None = None,
    cores_busy: bool = False,
) -> Run:
    """Figures of those who are counted. A wait of None: no answer, or an error."""
    sent = len(waits_ms)
    well = sorted(wait for wait in waits_ms if wait is not None)

    def each(total: float | None, digits: int = 3) -> float | None:
        return None if total is None or not sent else round(total / sent, digits)

    return Run(
        contender=contender,
        rps=rps,
        database_rtt_ms=None if database_rtt_ms is None else round(database_rtt_ms, 2),
        sent=sent,
        ok=len(well),
        p50_ms=percentile(well, 0.50),
        p95_ms=percentile(well, 0.95),
        p99_ms=percentile(well, 0.99),
        cpu_ms_per_request=each(cpu_s * 1000) or 0.0,
        caller_cpu_ms_per_request=each(caller_cpu_s * 1000) or 0.0,
        all_cpu_ms_per_request=None if all_cpu_s is None else each(all_cpu_s * 1000),
        round_trips_per_request=each(round_trips),
        cores_busy=cores_busy,
        seconds=seconds,
        late_p99_ms=percentile(sorted(late_ms), 0.99),
    )


def added_ms(one: Run, runs: Sequence[Run], name: str) -> float | None:
    """What `one` has more than *direct* at the same rate on as busy a machine; None: unknown.

    `name`: p50_ms, p95_ms or p99_ms.
    """
    beside = [
        r for r in runs if (r.contender, r.rps, r.cores_busy) == (DIRECT, one.rps, one.cores_busy)
    ]
    mine = getattr(one, name)
    its = getattr(beside[0], name) if beside else None
    return None if mine is None or its is None else round(mine - its, 3)


def document(runs: Sequence[Run], **about: Any) -> dict[str, Any]:
    """What people.json holds."""
    return {"runs": [asdict(one) for one in runs], **about}
