"""The laws, one file each. A new policy is one new file here that defines POLICY, nothing else."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from app.domain.throttle.policies.base import Policy
from app.errors import UnknownName


@functools.cache
def registered() -> Mapping[str, Policy]:
    """Every policy by name."""
    found: dict[str, Policy] = {}
    for module in pkgutil.iter_modules(__path__):
        policy = getattr(importlib.import_module(f"{__name__}.{module.name}"), "POLICY", None)
        if policy is not None:
            found[policy.name] = policy
    return MappingProxyType(found)


def check_options(name: str, options: Mapping[str, float]) -> None:
    """UnknownName for an option that the policy called `name` does not have."""
    known = named(name).options
    for option in options:
        if option not in known:
            raise UnknownName(f"option of policy {name!r}", option, list(known))


def named(name: str) -> Policy:
    """The policy called `name`; UnknownName lists those there are."""
    try:
        return registered()[name]
    except KeyError:
        raise UnknownName("policy", name, list(registered())) from None
