"""What a person may ask of `giveway up`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from app.errors import UnknownName

POSTGRES, VALKEY, SIMULATED = "postgres", "valkey", "simulated"
INTERACTIVE, BATCH, CONTROL = "interactive", "batch", "control"
BEAT, FLOWER, SCALING = "beat", "flower", "scaling"
MIGRATIONS = "migrations"
WORKERS = (INTERACTIVE, BATCH, CONTROL)
PROCESSES = (POSTGRES, VALKEY, SIMULATED, *WORKERS, BEAT, FLOWER, SCALING)


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Everything but the settings. Ports: None or 0 for one that is free."""

    data: Path
    config: Path | None = None
    postgres_port: int | None = None
    valkey_port: int | None = None
    endpoint_port: int | None = None
    flower_port: int | None = None
    flower: bool = True
    simulate: bool = False
    """Run the simulated endpoint for the configured endpoints of that kind, at `endpoint_port`."""
    endpoint_speed: float = 1.0
    """Of the simulated endpoint; 2 halves all its times."""
    only: tuple[str, ...] = ()
    """Names of processes; empty for all."""

    def __post_init__(self) -> None:
        for name in self.only:
            if name not in (*PROCESSES, MIGRATIONS):
                raise UnknownName("process", name, (*PROCESSES, MIGRATIONS))

    def wants(self, name: str) -> bool:
        """Whether the process called `name` may run."""
        if name == FLOWER and not self.flower:
            return False
        if name == MIGRATIONS and any(worker in self.only for worker in WORKERS):
            return True  # a worker finds its tables as it knows them
        return not self.only or name in self.only

    def as_json(self) -> str:
        """For the command line of a process that works in the background."""
        return json.dumps(
            {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}
        )

    @classmethod
    def from_json(cls, text: str) -> StackOptions:
        """The inverse of `as_json`."""
        raw = json.loads(text)
        config = raw.pop("config")
        return cls(
            **{
                **raw,
                "data": Path(raw["data"]),
                "config": Path(config) if config else None,
                "only": tuple(raw["only"]),
            }
        )
