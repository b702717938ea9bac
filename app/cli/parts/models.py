"""Which model a command means when none is named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.domain.jobs import NO_MODEL
from app.errors import UsageError

if TYPE_CHECKING:
    from app.services.pools import Pools

_EMBEDS = re.compile(
    r"embed|(^|[/_-])(e5|bge|gte|minilm|nomic|jina|arctic)([._-]|$)", re.IGNORECASE
)


def embeds(model: str) -> bool:
    """Whether the name is that of an embedding model, as far as a name tells."""
    return _EMBEDS.search(model) is not None


def embedding_model(pools: Pools, named: str | None) -> str:
    """The model for vectors. UnknownName: nobody serves `named`; UsageError: none can be told."""
    return named_model(pools, named) or _first(pools, (m for m in _all(pools) if embeds(m)))


def chat_model(pools: Pools, named: str | None) -> str:
    """The model for answers: the first that is not obviously for embeddings."""
    return named_model(pools, named) or _first(pools, (m for m in _all(pools) if not embeds(m)))


def named_model(pools: Pools, named: str | None) -> str | None:
    """`named`, if it is served or means that no model is called. UnknownName lists those served."""
    if named is not None and named != NO_MODEL:
        pools.for_model(named)
    return named


def _all(pools: Pools) -> list[str]:
    return [model for endpoint in pools.endpoints for model in endpoint.models]


def _first(pools: Pools, fitting: Iterable[str]) -> str:
    found = next(iter(fitting), None) or (_all(pools)[0] if len(set(_all(pools))) == 1 else None)
    if found is not None:
        return found
    if not pools.endpoints:
        raise UsageError(
            "no endpoint is declared: start the stack with `giveway up`, or declare [[endpoints]] "
            "in giveway.toml"
        )
    raise UsageError(f"name a model with --model: {', '.join(sorted(pools.models))}")
