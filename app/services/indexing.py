"""Indexing: a collection's index is built after a bulk load, and is not in the way of one."""

from __future__ import annotations

import logging

from sqlalchemy import text

from app.domain.indexing import IndexRules, Move, move
from app.storage.database import Database
from app.storage.vector_index import IndexFacts, build_index, drop_index, index_facts

log = logging.getLogger(__name__)

_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtextextended('giveway.indexing', 0))")


class Indexing:
    """The use case: run by a tick, one at a time however many tick."""

    def __init__(self, database: Database, rules: IndexRules) -> None:
        self._database = database
        self._rules = rules

    def sweep(self) -> dict[str, str]:
        """Build and drop what is due; what was done, by collection.

        The lock is held on a connection of its own for as long as an index takes to be built.
        """
        with self._database.transaction() as guard:
            guard.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            if not guard.execute(_LOCK).scalar_one():
                return {}
            with self._database.transaction() as tx:
                found = index_facts(tx, self._rules.worth)
            due = {one.name: self._due(one) for one in found}
            for one in found:
                self._carry_out(one, due[one.name])
        return {name: what.value for name, what in due.items() if what is not Move.KEEP}

    def _due(self, one: IndexFacts) -> Move:
        if one.dimension is None:
            return Move.KEEP
        return move(one.vectors, one.coming, indexed=one.indexed, rules=self._rules)

    def _carry_out(self, one: IndexFacts, what: Move) -> None:
        if what is Move.KEEP:
            return
        log.info("collection %s: %s its index", one.name, what.value)
        if what is Move.BUILD and one.dimension is not None:
            # What is left of a build that a restart cut short is of no use.
            self._database.alone(drop_index(one.id))
            self._database.alone(build_index(one.id, one.dimension))
        else:
            self._database.alone(drop_index(one.id))
