"""The door: everything that a program does with Giveway begins here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.client import people
from app.client.jobs import JobHandle
from app.client.people import Answer
from app.client.schedules import Schedules
from app.client.sources import Items, Source, on_disk
from app.domain.jobs import JobState
from app.domain.reports import Report
from app.errors import UsageError
from app.local.state import environment_of
from app.services.evaluation import Run as EvaluationRun
from app.services.launching import checked_template
from app.services.searching import Hit
from app.settings import load
from app.wiring import Wiring
from app.worker import reaching


class Giveway:
    """One stack, by its data folder or by its settings file, as on the command line.

    Opens nothing before it is used. A context manager; or call `close`. Threads may share one, a
    forked process makes its own connections.
    """

    def __init__(self, config: str | Path | None = None, data: str | Path | None = None) -> None:
        """`data` None: GIVEWAY_DATA or ./.giveway; `config` None: the running stack's own, or
        ./giveway.toml. ConfigError: a setting that cannot be."""
        folder = Path(data or os.environ.get("GIVEWAY_DATA") or ".giveway")
        beneath = environment_of(folder) or {}
        named = config or os.environ.get("GIVEWAY_CONFIG") or beneath.get("GIVEWAY_CONFIG")
        settings = load(Path(named) if named else None, beneath=beneath)
        self._wiring = Wiring(settings)
        self._wiring.observer = self._wiring.recorder
        self._wiring.data = folder if folder.is_dir() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what it opened."""
        made = vars(self._wiring)
        for name in ("recorder", "wires", "database"):
            if name in made:
                made[name].close()

    def submit(
        self,
        kind: str,
        source: Source | str | Path | Items,
        *,
        model: str | None = None,
        key: str | None = None,
        options: dict[str, Any] | None = None,
        **params: Any,
    ) -> JobHandle:
        """Submit a job of `kind` over `source`; the same key and content give the same job.

        `params` are the kind's own (collection, prompt, …); `options` those of a job, by the names
        of `JobTemplate`: priority, weight, tenant, deadline, window, after, webhook, budget, ….
        Raises UsageError leaves for what cannot be, KeyConflict for a key that is another job's.
        """
        if model is not None:
            params["model"] = model
        with on_disk(source, self._wiring.data) as read:
            template = checked_template(
                {"kind": kind, "params": params, "source": read, **(options or {})}
            )
            submitted = self._wiring.launching.launch(template, key)
        reaching.ring(self._wiring, submitted.job.pool)
        return JobHandle(self._wiring, submitted.job, created=submitted.created)

    def job(self, reference: str | int) -> JobHandle:
        """The job with this key or id. NotFound: there is none."""
        return JobHandle(self._wiring, self._wiring.inspection.job(str(reference)).job)

    def jobs(self, most: int = 20, states: Sequence[JobState | str] = ()) -> list[JobHandle]:
        """The newest jobs first."""
        wanted = tuple(JobState(state) for state in states)
        found = self._wiring.inspection.jobs(most, wanted)
        return [JobHandle(self._wiring, job) for job, _ in found]

    def ask(
        self,
        prompt: str | Sequence[dict[str, str]],
        *,
        model: str,
        max_tokens: int | None = 256,
        priority: int = 0,
        deadline_s: float = 120.0,
        user: str | None = None,
    ) -> Answer:
        """An answer at once, in front of all batch work. `prompt` may be messages, as OpenAI has
        them. `priority` 0 to 9, the higher first. Unavailable: none within `deadline_s`."""
        if isinstance(prompt, str) and not prompt.strip():
            raise UsageError("the prompt is blank")
        said = {"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}
        asked: dict[str, Any] = {**said, "model": model, "max_tokens": max_tokens}
        asked |= {"priority": priority, "deadline_s": deadline_s}
        asked |= {} if user is None else {"user": user}
        return people.ask(self._wiring, asked, deadline_s)

    def embed(
        self, texts: Sequence[str], *, model: str, priority: int = 0, deadline_s: float = 120.0
    ) -> NDArray[np.float32]:
        """Vectors of `texts` at once: (len(texts), dimension), same order."""
        return people.embed(self._wiring, texts, model, priority, deadline_s)

    def search(self, collection: str, query: str, most: int = 10) -> list[Hit]:
        """The items of a collection nearest to `query`. NotFound: no such collection."""
        return self._wiring.searching.search(collection, query, most)

    @cached_property
    def schedules(self) -> Schedules:
        """Jobs by the clock."""
        return Schedules(self._wiring)

    def evaluation(self, reference: str | int) -> EvaluationRun:
        """An evaluation job's scores so far, with their intervals."""
        return self._wiring.evaluation.run(str(reference))

    def report(self, since_s: float = 3600.0) -> Report:
        """Everything that happened in the last `since_s` seconds."""
        return self._wiring.reporting.report(since_s)
