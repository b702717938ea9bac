"""Where the items of a chunk stand that need several calls: answers so far, calls still to make.

Execution makes the calls; an answer is stored in the transaction of its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from app.domain.chunks import Lease
from app.domain.cleaning import cleaned
from app.domain.inference import ChatReply
from app.domain.results import Item, ItemResult, Status
from app.kinds.base import Answer, Call, Calls, ManySteps, Params, Read, Unit
from app.services.kind_faults import KIND_FAULT, fault_of
from app.storage.step_store import StepStore, StoredStep


@dataclass(frozen=True, slots=True)
class Step:
    """The next call of an item. `name` is the step's; its answer is stored under it."""

    item: Item
    name: str
    request: Call


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checkpoint does to stored answers: add one, let go those of items with a result."""

    seq: int = 0
    answer: StoredStep | None = None
    settled: tuple[int, ...] = ()

    def write(self, tx: Connection, lease: Lease, *, is_new: bool) -> bool:
        """Do it; whether the checkpoint is new: of a step its answer says so, else `is_new`."""
        if self.settled:
            StepStore(tx).forget(lease.job_id, self.settled)
        if self.answer is None:
            return is_new
        return StepStore(tx).record(lease, self.seq, self.answer)


@dataclass(frozen=True, slots=True)
class Taken(Read):
    """What a step's answer brought: its item's result, or nothing yet; and what is kept of it."""

    kept: Kept = Kept()


@dataclass(slots=True)
class _Standing:
    done: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    waiting: dict[str, Call] = field(default_factory=dict)
    result: ItemResult | None = None


class Steps:
    """The items of one chunk. `stored` are the answers that earlier leases left, by item."""

    def __init__(
        self, kind: ManySteps, params: Params, stored: Mapping[int, Sequence[StoredStep]]
    ) -> None:
        self._kind = kind
        self._params = params
        self._standing: dict[int, _Standing] = {
            seq: _Standing({one.name: one.output for one in steps}, sum(s.tokens for s in steps))
            for seq, steps in stored.items()
        }

    def ready(self, todo: list[Sequence[Unit]], most: int) -> tuple[list[ItemResult], Kept]:
        """Take the results of the foremost items that need no further call, at most so many.

        A kind's own fault keeps the answers, for when it is mended and the item is tried again.
        """
        results: list[ItemResult] = []
        while todo and len(results) < most:
            at = self._asked(todo[0][0].item)
            if at.result is None:
                break
            results.append(at.result)
            todo.pop(0)
            del self._standing[at.result.seq]
        return results, Kept(settled=tuple(r.seq for r in results if r.code != KIND_FAULT))

    def ahead(self, item: Item) -> Step:
        """The next call of an item that is not `ready`."""
        name, request = next(iter(self._asked(item).waiting.items()))
        return Step(item, name, request)

    def take(self, step: Step, reply: Answer, endpoint: str, carried: int = 0) -> Taken:
        """Take the answer of `step`. If it was the last one, it is not stored: the result is.

        `carried`: tokens of it that an earlier call had made.
        """
        at, usage = self._standing[step.item.seq], reply.usage
        answer = StoredStep(step.name, output_of(reply), usage.total_tokens + carried, endpoint)
        del at.waiting[step.name]
        at.done[step.name] = answer.output
        at.tokens += answer.tokens
        result, seq = self._asked(step.item).result, step.item.seq
        fault = result is not None and result.code == KIND_FAULT
        results = [] if result is None or fault else [result]
        kept = Kept(settled=(seq,)) if results else Kept(seq, answer)
        return Taken(results, None, usage.prompt_tokens, usage.completion_tokens, kept)

    def _asked(self, item: Item) -> _Standing:
        at = self._standing.setdefault(item.seq, _Standing())
        if at.result is None and not at.waiting:
            self._ask(item, at)
        return at

    def _ask(self, item: Item, at: _Standing) -> None:
        try:
            said = self._kind.step(item, MappingProxyType(at.done), self._params)
        except Exception as error:  # noqa: BLE001 - a kind may be anybody's code
            at.result = _fault(item, fault_of(self._kind.name, error))
            return
        if isinstance(said, Calls):
            at.waiting = {n: call for n, call in said.by_name.items() if n not in at.done}
            if not at.waiting:
                why = f"{self._kind.name} named no new step and gave no result"
                at.result = _fault(item, why)
        else:
            at.result = replace(said, seq=item.seq, tokens=said.tokens or at.tokens)


def output_of(reply: Answer) -> Any:
    """An answer as it is stored: JSON that comes back equal, clean of what Postgres refuses."""
    if not isinstance(reply, ChatReply):
        return [[float(number) for number in vector] for vector in reply.vectors]
    text = cleaned(reply.text)
    output: dict[str, Any] = {"text": text.text, "finish_reason": reply.finish_reason}
    if text.flags:
        output["cleaned"] = ",".join(sorted(text.flags))
    if reply.tool_calls:
        output["tool_calls"] = [dict(call) for call in reply.tool_calls]
    return output


def _fault(item: Item, why: str) -> ItemResult:
    return ItemResult(item.seq, Status.FAILED, code=KIND_FAULT, error=why)
