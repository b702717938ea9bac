"""What a calibration changes in the settings file, shown before it is written."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from app.domain.calibration.proposal import Proposal
from app.domain.routing import EndpointSpec
from app.errors import ConfigError, UnknownName
from app.logs import masked
from app.settings import Settings, edit


@dataclass(frozen=True, slots=True)
class Change:
    """The file's text before and after. Without a file, `after` is a whole new one."""

    file: Path | None
    before: str
    after: str

    @property
    def shown(self) -> str:
        """A unified diff, or the whole new file; secrets masked."""
        if self.file is None:
            return self.after
        name = str(self.file)
        lines = difflib.unified_diff(
            self.before.splitlines(),
            self.after.splitlines(),
            name,
            f"{name} (proposed)",
            lineterm="",
        )
        return masked("".join(f"{line}\n" for line in lines))

    def save(self) -> bool:
        """Write it; False where there is nothing to write. ConfigError: it would not be right."""
        if self.file is None or self.after == self.before:
            return False
        edit.save(self.file, self.after)
        return True


def change(settings: Settings, file: Path | None, spec: EndpointSpec, proposal: Proposal) -> Change:
    """The change that puts `proposal` into `file`, or into a new file of the present settings where
    there is none that may be changed."""
    if file is None or obstacle(file, spec) is not None:
        return Change(None, "", _new(settings, spec, proposal))
    before = edit.read(file)
    after = edit.with_pool(before, spec.pool, proposal.pool)
    if proposal.endpoint:
        after = edit.with_endpoint(after, spec.name, proposal.endpoint)
    return Change(file, before, after)


def obstacle(file: Path, spec: EndpointSpec) -> str | None:
    """Why this pool and endpoint cannot be changed in `file`; None: they can."""
    for variable in ("GIVEWAY_POOLS", "GIVEWAY_ENDPOINTS"):
        if os.environ.get(variable):
            return f"{variable} is set and wins over {file}; change it there"
    try:
        edit.with_endpoint(edit.with_pool(edit.read(file), spec.pool, {}), spec.name, {})
    except ConfigError as error:
        return f"{file}: {error}"
    return None


def _new(settings: Settings, spec: EndpointSpec, proposal: Proposal) -> str:
    pool = settings.pool(spec.pool)
    if pool is None:
        raise UnknownName("pool", spec.pool, [one.name for one in settings.pools])
    endpoints = [one for one in settings.endpoints if one.pool == spec.pool]
    return edit.whole(pool, proposal.pool, endpoints, {spec.name: proposal.endpoint})
