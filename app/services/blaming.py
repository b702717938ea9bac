"""Finding out whose a failed batch call is, by what this process has seen and a cheap request.

What is known stays in the process: a restart forgets it, and asks once more.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app import clock, errors
from app.domain.blame import WINDOW_S, Blame, Input, Trial, asks, blamed, evidence
from app.domain.health import FAULTS
from app.inference.health import probe, probe_cost
from app.inference.wires import Wires
from app.kinds.base import Unit
from app.services.rates import Rates
from app.services.work import Work

_MOST = 512
_PROBE_S = 5.0
_TRIALS = FAULTS | {"rate_limited"}
"""Codes that may tell of the endpoint or of the input."""
_PLAIN = frozenset({"bad_request", "too_long", "content_refused"})
"""Codes of an endpoint that works and says whose fault it is."""


@dataclass(slots=True)
class _Seen:
    """What this process has seen of one endpoint, and its last probe."""

    trials: deque[Trial] = field(default_factory=lambda: deque(maxlen=_MOST))
    asking: threading.Lock = field(default_factory=threading.Lock)
    asked_at_s: float = float("-inf")
    answers: bool = False


class Blaming:
    """Keeps how calls ended at each endpoint. Thread-safe."""

    def __init__(self, wires: Wires, rates: Rates, probe_timeout_s: float) -> None:
        self._wires = wires
        self._rates = rates
        self._timeout_s = min(probe_timeout_s, _PROBE_S)
        self._guard = threading.Lock()
        self._seen: defaultdict[str, _Seen] = defaultdict(_Seen)

    def got_through(self, work: Work, batch: Sequence[Unit]) -> None:
        """The endpoint answered the call of `batch`."""
        self._note(work.claimed.endpoint.name, _input(work, batch), None)

    def whose(self, work: Work, batch: Sequence[Unit], error: errors.EndpointError) -> Blame:
        """Whose fault it is that the call of `batch` has just ended with `error`.

        May ask the endpoint, no longer than a few seconds; no transaction may be open.
        """
        if error.code in _PLAIN:
            self.got_through(work, batch)
        if error.code not in _TRIALS or (isinstance(error, errors.BadReply) and error.doubtful):
            return Blame.ENDPOINT
        failed_at_s = clock.monotonic_s()
        name, sent = work.claimed.endpoint.name, _input(work, batch)
        waits = error.retry_after_s is not None and error.retry_after_s > 0
        with self._guard:
            trials = tuple(self._seen[name].trials)
        known = evidence(error.code, sent, trials, failed_at_s, told_to_wait=waits)
        if asks(known):
            known = replace(known, answers=self._answers(work, failed_at_s))
        blame = blamed(known)
        self._note(name, sent, blame)
        return blame

    def suspects(self, job_id: int) -> set[int]:
        """The items of the job for which a call failed of late, wherever."""
        since_s = clock.monotonic_s() - WINDOW_S
        with self._guard:
            failed = [
                one.sent
                for seen in self._seen.values()
                for one in seen.trials
                if one.blame is not None and one.at_s >= since_s
            ]
        return {seq for sent in failed for job, seq in sent if job == job_id}

    def last(self, job_id: int, units: Sequence[Unit]) -> list[Unit]:
        """`units` with those behind the others whose call failed of late."""
        suspects = self.suspects(job_id)
        return sorted(units, key=lambda unit: unit.item.seq in suspects)

    def _answers(self, work: Work, failed_at_s: float) -> bool:
        """Whether the endpoint answers a small request like the one that failed.

        Threads whose calls fail at the same time share one.
        """
        seen = self._seen[work.claimed.endpoint.name]
        with seen.asking:
            if seen.asked_at_s < failed_at_s:
                began_s = clock.monotonic_s()
                seen.answers = self._probed(work)
                seen.asked_at_s = began_s
                if seen.answers:
                    self._note(work.claimed.endpoint.name, frozenset(), None)
            return seen.answers

    def _probed(self, work: Work) -> bool:
        spec, model = work.claimed.endpoint, work.claimed.choice.model
        cost = probe_cost(work.task, model)
        try:
            wire = self._wires.of(spec)
            with self._rates.beside(spec, cost, deadline_s=self._timeout_s, interactive=False):
                found = probe(wire, spec.kind, work.task, model, deadline_s=self._timeout_s)
        except (errors.ConfigError, errors.BudgetSpent):
            return False
        return found is None

    def _note(self, endpoint: str, sent: Input, blame: Blame | None) -> None:
        with self._guard:
            self._seen[endpoint].trials.append(Trial(clock.monotonic_s(), sent, blame))


def _input(work: Work, batch: Sequence[Unit]) -> Input:
    return frozenset((work.lease.job_id, unit.item.seq) for unit in batch)
