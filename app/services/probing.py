"""Probing: open endpoints are asked whether they are well again, slow ones are told from the rest.

One probe an endpoint at a time, in whatever process, with no transaction open and in a thread of
its own: an endpoint that hangs holds up no tick.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from app import clock, errors
from app.domain.events import EndpointProbed, EndpointSlow, Observer
from app.domain.health import FAULTS, is_slow, probed
from app.domain.routing import EndpointSpec
from app.inference.health import probe, probe_cost
from app.inference.wires import Wires
from app.services.pools import Pools
from app.services.rates import Rates
from app.services.standing import Rules
from app.storage.database import Database
from app.storage.endpoint_store import Due, EndpointStore
from app.storage.fleet_store import FleetStore

log = logging.getLogger(__name__)

_MARGIN_S = 5.0
"""So much longer than its probe may take, an endpoint is kept from other processes."""
_LEAST_CALLS = 5
"""Who has answered less often lately is not compared with others."""
_WORTH_WRITING = 0.1
"""By so much of itself a pace must change to be written."""


class Probing:
    """The use case behind the tick `giveway.control.probe`."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        wires: Wires,
        rates: Rates,
        rules: Rules,
        observer: Observer,
    ) -> None:
        self._database = database
        self._pools = pools
        self._wires = wires
        self._rates = rates
        self._rules = rules
        self._observer = observer

    def tick(self, wait_s: float = 0.0) -> list[str]:
        """Start a probe for each endpoint whose time has come, and compare paces; whom it probes.

        Waits at most `wait_s` for the probes to end.
        """
        timeout_s = self._rules.health.probe_timeout_s
        with self._database.transaction() as tx:
            due = EndpointStore(tx).take_probes(timeout_s + _MARGIN_S)
        threads = [
            threading.Thread(target=self._probe, args=(one,), name="probe", daemon=True)
            for one in due
        ]
        for thread in threads:
            thread.start()
        self.compare()
        until_s = clock.monotonic_s() + wait_s
        for thread in threads:
            thread.join(max(0.0, until_s - clock.monotonic_s()))
        return [one.name for one in due]

    def compare(self) -> dict[str, bool]:
        """Write how each endpoint's pace compares with its peers'; who became slow, or no more."""
        policy = self._rules.health
        with self._database.transaction() as tx:
            store = FleetStore(tx)
            paces = store.paces(list(self._pools.by_name), policy.slow_window_s, _LEAST_CALLS)
            told = [(one, is_slow(one.slow, one.pace, policy)) for one in paces]
            store.set_paces(
                [
                    (one.name, one.pace, slow)
                    for one, slow in told
                    if slow is not one.slow or _differ(one.known, one.pace)
                ]
            )
        changed = {one.name: (slow, one.pace) for one, slow in told if slow is not one.slow}
        for name, (slow, pace) in changed.items():
            self._observer.saw(EndpointSlow(name, slow, pace))
        return {name: slow for name, (slow, _) in changed.items()}

    def _probe(self, due: Due) -> None:
        # The lease runs out, and another probe comes.
        with suppress(errors.DatabaseUnavailable, errors.BudgetSpent):
            self._conclude(due, self._found(due))

    def _found(self, due: Due) -> errors.EndpointError | None:
        """What is wrong with it; None: nothing. BudgetSpent: it may not be asked now."""
        spec = due.added or self._declared(due)
        if spec is None:
            return errors.ModelMissing("no process that probes knows this endpoint")
        try:
            wire = self._wires.of(spec)
        except errors.ConfigError as error:
            log.warning("cannot probe: %s", error)
            return errors.ConnectionFailed(str(error))
        deadline_s = self._rules.health.probe_timeout_s
        with self._rates.beside(
            spec, probe_cost(due.task, due.model), deadline_s=deadline_s, interactive=True
        ):
            return probe(wire, spec.kind, due.task, due.model, deadline_s=deadline_s)

    def _declared(self, due: Due) -> EndpointSpec | None:
        return next((spec for spec in self._pools.endpoints if spec.name == due.name), None)

    def _conclude(self, due: Due, error: errors.EndpointError | None) -> None:
        """Close the breaker, or open it for longer.

        An endpoint that answers with a rate limit or asks for another key is there: what to do then
        is for those who have a request.
        """
        ok = error is None or error.code not in FAULTS
        with self._database.transaction() as tx:
            store = EndpointStore(tx)
            row = store.lock(due.name)
            if row is None:
                return
            after = probed(row.breaker, ok=ok, policy=self._rules.health, now=row.now)
            store.probed(due, after, None if error is None else error.code)
        self._observer.saw(
            EndpointProbed(due.pool, due.name, ok, None if error is None else error.code)
        )


def _differ(known: float | None, pace: float | None) -> bool:
    if known is None or pace is None:
        return known is not pace
    return abs(pace - known) > _WORTH_WRITING * known
