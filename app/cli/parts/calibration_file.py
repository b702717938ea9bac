"""What a calibration changes in the settings file, shown before it is written."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from app.domain.calibration.proposal import Proposal
from app.domain.routing import EndpointSpec
from app.errors import ConfigError, UnknownName
from app.logs import masked
from app.settings import Settings, edit

_PASSWORD = re.compile(r"(?im)^(\s*\w*(?:password|secret)\w*\s*=\s*)\S.*$")


@dataclass(frozen=True, slots=True)
class Change:
    """The file's text before and after. Without a file, `after` is a whole new one."""

    file: Path | None
    before: str
    after: str
    endpoint_left_out: bool = False
    """The file does not declare the endpoint, so that only the pool's part is in `after`."""

    @property
    def shown(self) -> str:
        """A unified diff, or the whole new file; secrets that stand near are masked."""
        if self.file is None:
            return self.after
        name = str(self.file)
        before, after = (
            masked(_PASSWORD.sub(r"\1***", text)).splitlines() for text in (self.before, self.after)
        )
        lines = difflib.unified_diff(before, after, name, f"{name} (proposed)", lineterm="")
        return "".join(f"{line}\n" for line in lines)

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
    if not proposal.endpoint:
        return Change(file, before, after)
    try:
        return Change(file, before, edit.with_endpoint(after, spec.name, proposal.endpoint))
    except ConfigError:
        return Change(file, before, after, endpoint_left_out=True)


def obstacle(file: Path, spec: EndpointSpec) -> str | None:
    """Why the endpoint's pool cannot be changed in `file`; None: it can."""
    if os.environ.get("GIVEWAY_POOLS"):
        return f"GIVEWAY_POOLS is set and wins over {file}; change it there"
    try:
        edit.with_pool(edit.read(file), spec.pool, {})
    except ConfigError as error:
        return f"{file}: {error}"
    return None


def _new(settings: Settings, spec: EndpointSpec, proposal: Proposal) -> str:
    pool = settings.pool(spec.pool)
    if pool is None:
        raise UnknownName("pool", spec.pool, [one.name for one in settings.pools])
    endpoints = [one for one in settings.endpoints if one.pool == spec.pool]
    return edit.whole(pool, proposal.pool, endpoints, {spec.name: proposal.endpoint})
