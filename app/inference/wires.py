"""One client an endpoint and process, made on first use. Keys come from the environment here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from app.domain.routing import EndpointSpec
from app.errors import ConfigError
from app.inference.sockets import CallBackend
from app.inference.wire import Wire


class Wires:
    """Clients by endpoint. Thread-safe. `backend` opens their sockets."""

    def __init__(self, backend: Callable[[float], CallBackend] = CallBackend) -> None:
        self._backend = backend
        self._wires: dict[str, tuple[EndpointSpec, Wire]] = {}
        self._lock = threading.Lock()

    def of(self, spec: EndpointSpec) -> Wire:
        """The client of `spec`. ConfigError: the variable that holds its key is not set.

        One that was removed and added again under its name, with another address, is another one.
        """
        with self._lock:
            known = self._wires.get(spec.name)
            if known is not None and _reach(known[0]) == _reach(spec):
                return known[1]
            wire = Wire(
                spec.base_url,
                _key(spec),
                connect_timeout_s=spec.connect_timeout_s,
                backend=self._backend,
            )
            self._wires[spec.name] = (spec, wire)
            return wire

    def close(self) -> None:
        """Close every client."""
        with self._lock:
            for _, wire in self._wires.values():
                wire.close()
            self._wires.clear()


def _reach(spec: EndpointSpec) -> tuple[str, str | None, float]:
    return spec.base_url, spec.api_key_env, spec.connect_timeout_s


def _key(spec: EndpointSpec) -> str | None:
    if spec.api_key_env is None:
        return None
    key = os.environ.get(spec.api_key_env)
    if not key:
        raise ConfigError(
            f"endpoint {spec.name!r}: the variable {spec.api_key_env} (its api_key_env) is not set "
            "in this process"
        )
    return key
