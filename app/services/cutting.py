"""Cutting a chunk into micro-batches, and sorting out what no call could carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app import errors
from app.domain.knees import Most, sized
from app.domain.packing import packed
from app.domain.rates import budget_of, most_tokens_a_call
from app.domain.results import ItemResult, Status
from app.kinds.base import Kind, Unit
from app.services.calling import Caller
from app.services.claiming import Claimed
from app.services.work import BatchLimits
from app.storage.database import Database
from app.storage.knee_store import KneeStore


@dataclass(frozen=True, slots=True)
class Cutting:
    """Cuts by `limits` and by what each endpoint takes; waits `patience_s` for Postgres at most."""

    database: Database
    caller: Caller
    limits: BatchLimits
    patience_s: float

    def too_long(
        self, claimed: Claimed, units: Sequence[Unit]
    ) -> tuple[list[ItemResult], list[Unit]]:
        """Results of the items that are known to be too long, before anything is sent; the rest."""
        long = self.caller.too_long(claimed, units)
        most = claimed.takes.input_tokens
        told = f"tokens, but endpoint {claimed.endpoint.name!r} takes {most} an input"
        code = errors.TooLong.code
        failed = [
            ItemResult(seq, Status.FAILED, code=code, error=f"{count} {told}")
            for seq, count in long.items()
        ]
        return failed, [unit for unit in units if unit.item.seq not in long]

    def cut(self, claimed: Claimed, kind: Kind, units: Sequence[Unit]) -> list[Sequence[Unit]]:
        """The micro-batches of `units`: one unit each where the kind sends none together."""
        if not kind.together:
            return [[unit] for unit in units]
        most = self._most(claimed)
        return list(packed(units, [unit.tokens for unit in units], most.items, most.tokens))

    def _most(self, claimed: Claimed) -> Most:
        """What a micro-batch may hold: what the endpoint takes, its rate budget lets through in one
        go, and it was seen to carry well."""
        endpoint, takes = claimed.endpoint, claimed.takes
        tokens = takes.tokens or self.limits.micro_batch_tokens
        bounds = Most(
            takes.items or self.limits.micro_batch_items,
            most_tokens_a_call(budget_of(endpoint), tokens),
        )
        learnt = self.database.patiently(
            lambda tx: KneeStore(tx).find(endpoint.name, claimed.choice.model), self.patience_s
        )
        return sized(learnt, claimed.lease.no, bounds)
