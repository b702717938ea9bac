"""Indexing: a collection's index is built after a bulk load, and is not in the way of one."""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from app.domain.indexing import IndexRules, Move, move
from app.storage.database import Database
from app.storage.vector_index import INDEXING, IndexFacts, build_index, drop_index, index_facts

log = logging.getLogger(__name__)


class Indexing:
    """The use case: run by a tick, one at a time however many tick."""

    def __init__(self, database: Database, rules: IndexRules) -> None:
        self._database = database
        self._rules = rules

    def sweep(self) -> dict[str, str]:
        """Build and drop what is due; what was done, by collection.

        The lock is held for as long as an index takes to be built, by the session that builds it.
        """
        with self._database.guarded(INDEXING) as own:
            if own is None:
                return {}
            found = index_facts(own, self._rules.worth)
            due = {one.name: self._due(one) for one in found}
            for one in found:
                self._carry_out(own, one, due[one.name])
        return {name: what.value for name, what in due.items() if what is not Move.KEEP}

    def _due(self, one: IndexFacts) -> Move:
        if one.dimension is None:
            return Move.KEEP
        return move(one.vectors, one.coming, indexed=one.indexed, rules=self._rules)

    @staticmethod
    def _carry_out(own: Connection, one: IndexFacts, what: Move) -> None:
        if what is Move.KEEP:
            return
        log.info("collection %s: %s its index", one.name, what.value)
        # What is left of a build that a restart cut short is of no use.
        own.execute(drop_index(one.id))
        if what is Move.BUILD and one.dimension is not None:
            own.execute(build_index(one.id, one.dimension))
