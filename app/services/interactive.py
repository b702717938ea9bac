"""An interactive request: a row, a place in the pool, the call, the row finished."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection

from app import errors
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest
from app.domain.requests import NewRequest, RequestState
from app.domain.routing import EndpointSpec, chosen
from app.inference.wires import Wires
from app.services.claiming import at_endpoints
from app.services.leases import Leases
from app.services.pools import Pool, Pools, tuned
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.limit_store import LimitStore
from app.storage.request_store import RequestStore

log = logging.getLogger(__name__)

_LOOK_S = 0.01
"""How soon a request looks again for a place; the further back in line, the later."""
_LOOK_MOST_S = 0.2
_PLACE_PATIENCE_S = 0.3
_END_PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply and where it came from, with times in milliseconds since submission."""

    reply: ChatReply | EmbedReply
    endpoint: str
    queue_ms: float
    first_token_ms: float | None
    total_ms: float


class Interactive:
    """The use case behind `giveway.interactive.*` tasks. The controller never gates it: only the
    pool's total does, of which the reserve is never batch's."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        wires: Wires,
        leases: Leases,
        worker: str,
        deadline_s: float,
        call_timeout_s: float,
    ) -> None:
        self._database = database
        self._pools = pools
        self._wires = wires
        self._leases = leases
        self._worker = worker
        self._deadline_s = deadline_s
        self._call_timeout_s = call_timeout_s

    def pool_for(self, model: str) -> str:
        """The pool that serves `model`."""
        return self._pools.for_model(model).name

    def run(self, request: NewRequest, asked: ChatRequest | EmbedRequest) -> Answered:
        """The endpoint's answer. Raises a leaf of EndpointError; the row then says its code.

        A request that found no place before its deadline is dropped unstarted: EndpointTimeout.
        """
        began = time.monotonic()
        pool = self._pools.named(request.pool)
        with self._leases.keep_request(request.id):
            endpoint = self._placed_or_bold(request, pool, began)
            queue_ms = _ms_since(began)
            first_token_at: list[float] = []

            def on_first_token() -> None:
                first_token_at.append(_ms_since(began))
                # The answer matters more than its record: a database that is away stops no stream.
                with suppress(errors.DatabaseUnavailable), self._database.transaction() as tx:
                    RequestStore(tx).first_token(request.id)

            try:
                wire = self._wires.of(endpoint)
                reply: ChatReply | EmbedReply
                if isinstance(asked, ChatRequest):
                    reply = wire.chat(
                        asked, deadline_s=self._call_timeout_s, on_first_token=on_first_token
                    )
                else:
                    reply = wire.embed(asked, deadline_s=self._call_timeout_s)
            except errors.EndpointError as error:
                self._end(request, RequestState.FAILED, error.code)
                raise
            except BaseException:
                self._end(request, RequestState.FAILED, "internal")
                raise
            total_ms = _ms_since(began)
            self._end(
                request,
                RequestState.DONE,
                None,
                reply.usage.prompt_tokens,
                reply.usage.completion_tokens,
            )
        first = first_token_at[0] if first_token_at else None
        return Answered(reply, endpoint.name, queue_ms, first, total_ms)

    def _placed_or_bold(self, request: NewRequest, pool: Pool, began: float) -> EndpointSpec:
        """A place; without a database, an endpoint all the same.

        While Postgres is away no batch call starts, so what is in flight only falls: the person is
        served without a row rather than made to wait for our bookkeeping.
        """
        try:
            return self._placed(request, pool, began)
        except errors.DatabaseUnavailable:
            endpoint = chosen(request.model, pool.endpoints, {}, {})
            if endpoint is None:
                raise
            log.warning("no database: a request goes to %s without a row", endpoint.name)
            return endpoint

    def _placed(self, request: NewRequest, pool: Pool, began: float) -> EndpointSpec:
        """Wait for a place and take it: both classes together never pass the pool's total."""
        arrived = False

        def look(tx: Connection) -> tuple[EndpointSpec | None, int]:
            if not arrived:
                RequestStore(tx).arrive(request, self._worker, self._leases.lease_s)
            return self._try_place(tx, request, pool)

        while True:
            endpoint, ahead = self._database.patiently(look, _PLACE_PATIENCE_S)
            arrived = True
            if endpoint is not None:
                return endpoint
            if time.monotonic() - began > self._deadline_s:
                self._end(request, RequestState.DROPPED, errors.EndpointTimeout.code)
                raise errors.EndpointTimeout(
                    f"no place in pool {pool.name!r} within {self._deadline_s:g} s; "
                    "the request was dropped unstarted"
                )
            threading.Event().wait(min(_LOOK_MOST_S, _LOOK_S * (1 + ahead)))

    def _try_place(
        self, tx: Connection, request: NewRequest, pool: Pool
    ) -> tuple[EndpointSpec | None, int]:
        """The endpoint whose place was taken, or None, and how many wait before this one."""
        limits, requests = LimitStore(tx), RequestStore(tx)
        row = limits.lock(pool.name)
        if row is None:
            limits.ensure([pool.bounds])
            row = limits.lock(pool.name)
            assert row is not None
        pool = tuned(pool, row.tuned)
        occupancy = limits.occupancy(pool.name)
        ahead = requests.ahead_of(request.id, pool.name)
        free = pool.bounds.total - occupancy.batch_total - occupancy.interactive_total
        if ahead >= free:
            return None, ahead
        endpoint = chosen(
            request.model,
            pool.endpoints,
            EndpointStore(tx).health(pool.name),
            at_endpoints(pool, occupancy),
        )
        if endpoint is not None:
            requests.start(request.id, endpoint.name)
        return endpoint, ahead

    def _end(
        self,
        request: NewRequest,
        state: RequestState,
        code: str | None,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
    ) -> None:
        def end(tx: Connection) -> None:
            RequestStore(tx).finish(request.id, state, code, prompt_tokens, completion_tokens)

        # Not longer: somebody waits for the answer, and a lapsed lease ends the row as well.
        with suppress(errors.DatabaseUnavailable):
            self._database.patiently(end, _END_PATIENCE_S)


def _ms_since(began: float) -> float:
    return (time.monotonic() - began) * 1000
