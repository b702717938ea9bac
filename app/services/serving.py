"""A party is served: a place, the call, and where that fails the next endpoint, within its time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from app import clock, errors
from app.domain.failover import first_token_s, moves_on
from app.domain.inference import ChatReply, ChatRequest, EmbedReply
from app.domain.routing import Choice
from app.inference.wire import Wire
from app.inference.wires import Wires
from app.services.party import Party
from app.services.places import Places
from app.services.rates import Rates
from app.services.standing import Rules, judged
from app.services.usage import with_usage
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.request_store import RequestStore

_NOTE_PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Served:
    """The reply and where it came from; monotonic seconds of the call's start and first token."""

    reply: ChatReply | EmbedReply
    choice: Choice
    sent_s: float
    first_token_s: float | None


class Serving:
    """Calls for people. An answer that has begun is not asked for again."""

    def __init__(
        self,
        database: Database,
        places: Places,
        wires: Wires,
        rates: Rates,
        call_timeout_s: float,
        rules: Rules,
    ) -> None:
        self._database = database
        self._places = places
        self._wires = wires
        self._rates = rates
        self._call_timeout_s = call_timeout_s
        self._rules = rules

    def served(self, party: Party) -> Served:
        """The answer of the first endpoint that gives one. Raises a leaf of EndpointError."""
        while True:
            choice = self._places.taken(party)
            call = _Call(party, choice, self._database, self._rates)
            try:
                return call.made(self._wire(choice), self._call_timeout_s)
            except errors.EndpointError as error:
                if self._waited(party, error):
                    continue
                self._failed(party, choice, error, call)

    def _waited(self, party: Party, error: errors.EndpointError) -> bool:
        """Whether the party has waited for a rate budget to have room, its place given back.

        It does where no other endpoint is left and there is time for it.
        """
        after_s = error.retry_after_s
        if not isinstance(error, errors.BudgetSpent) or party.elsewhere or after_s is None:
            return False
        if clock.monotonic_s() + after_s >= party.window.start_by_s:
            return False

        def note(tx: Connection) -> None:
            RequestStore(tx).wait_again([one.id for one in party.members()])

        with suppress(errors.DatabaseUnavailable):
            self._database.patiently(note, _NOTE_PATIENCE_S)
        party.gone.wait(after_s)
        return True

    def answered(self, tx: Connection, choice: Choice, task: str) -> None:
        """The endpoint answered well: what it did before counts no more."""
        EndpointStore(tx).answered(choice.spec.name, task)

    def _wire(self, choice: Choice) -> Wire:
        try:
            return self._wires.of(choice.spec)
        except errors.ConfigError as error:
            raise errors.AuthFailed(str(error)) from error

    def _failed(
        self, party: Party, choice: Choice, error: errors.EndpointError, call: _Call
    ) -> None:
        """Let everybody know, and give the place back to look for another; `error` if that is no
        use."""
        party.tried.add(choice.spec.name)
        party.failed = error
        late = clock.monotonic_s() >= party.window.start_by_s
        may_move = moves_on(error) and party.elsewhere and not party.gone.is_set()
        final = call.first_token_s is not None or late or not may_move
        after_s = clock.monotonic_s() - call.began_s

        def note(tx: Connection) -> None:
            self._blame(tx, party, choice, error, after_s)
            if final:
                return
            store = RequestStore(tx)
            store.wait_again([one.id for one in party.members()])
            if not isinstance(error, errors.BudgetSpent):  # Then there was no call.
                store.detour(party.pool, choice.spec.name, after_s, error.code)

        with suppress(errors.DatabaseUnavailable):
            self._database.patiently(note, _NOTE_PATIENCE_S)
        if final:
            raise error

    def _blame(
        self,
        tx: Connection,
        party: Party,
        choice: Choice,
        error: errors.EndpointError,
        after_s: float,
    ) -> None:
        judged(
            tx,
            choice.spec.name,
            error,
            self._rules,
            task="chat" if isinstance(party.asked(), ChatRequest) else "embed",
            model=choice.model,
            elsewhere=party.elsewhere,
            after_s=after_s,
        )


class _Call:
    """One call of a party to the endpoint whose place it has, with no transaction open."""

    def __init__(self, party: Party, choice: Choice, database: Database, rates: Rates) -> None:
        self._party = party
        self._choice = choice
        self._database = database
        self._rates = rates
        self.began_s = clock.monotonic_s()
        self.first_token_s: float | None = None

    def made(self, wire: Wire, longest_s: float) -> Served:
        """The answer, within `longest_s`, the party's time and the endpoint's rate budget."""
        party, now_s = self._party, clock.monotonic_s()
        deadline_s = max(0.001, min(party.window.answer_by_s - now_s, longest_s))
        bound_s = first_token_s(deadline_s, elsewhere=party.elsewhere)
        asked = replace(party.asked(), model=self._choice.model)
        reply: ChatReply | EmbedReply
        with self._rates.held(
            self._choice.spec, asked, deadline_s=deadline_s, interactive=True
        ) as hold:
            if party.sent_s is None:
                party.sent_s = clock.monotonic_s()
            if isinstance(asked, ChatRequest):
                reply = wire.chat(
                    asked,
                    deadline_s=deadline_s,
                    on_first_token=self._began,
                    cancelled=party.gone,
                    first_token_s=bound_s,
                )
            else:
                reply = wire.embed(
                    asked, deadline_s=deadline_s, cancelled=party.gone, first_token_s=bound_s
                )
            counter = self._rates.counters.of(self._choice.spec, asked.model)
            reply = with_usage(reply, asked, counter.count_here)  # Somebody waits for the answer.
            hold.used(reply.usage)
        return Served(reply, self._choice, party.sent_s, self.first_token_s)

    def _began(self) -> None:
        self.first_token_s = clock.monotonic_s()
        # The answer matters more than its record: a database that is away stops no stream.
        with suppress(errors.DatabaseUnavailable), self._database.transaction() as tx:
            RequestStore(tx).first_token([one.id for one in self._party.members()])
