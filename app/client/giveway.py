"""The door: everything that a program does with Giveway begins here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from app.client import people
from app.client.collections import Collections
from app.client.jobs import JobHandle
from app.client.operations import Endpoints, Throttle
from app.client.people import Answer
from app.client.schedules import Schedules
from app.client.sources import Items, Source, named_frame
from app.client.templates import template_of, with_columns
from app.client.words import word
from app.domain.evaluation.runs import MOST_UNSCORED
from app.domain.jobs import JobState
from app.domain.reports import Report
from app.errors import UsageError
from app.local.state import environment_of
from app.services.estimating import Estimate
from app.services.evaluation import Pair, check_installed
from app.services.evaluation import Run as EvaluationRun
from app.services.searching import Hit
from app.services.templates import JobTemplate
from app.settings import load
from app.wiring import Wiring
from app.worker import reaching

if TYPE_CHECKING:
    from app.worker.asking import Asker


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
        if "_asker" in vars(self):
            self._asker.close()
        self._wiring.close()

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
        Of dicts, those fields reach the kind that it looks at, by their names. Raises UsageError
        leaves for what cannot be, KeyConflict for a key that is another job's.
        """
        with self._template(kind, source, model, options, params) as template:
            submitted = self._wiring.launching.launch(template, key)
        reaching.ring(self._wiring, submitted.job.pool)
        return JobHandle(self._wiring, submitted.job, created=submitted.created)

    def estimate(
        self,
        kind: str,
        source: Source | str | Path | Items,
        *,
        model: str | None = None,
        key: str | None = None,
        options: dict[str, Any] | None = None,
        **params: Any,
    ) -> Estimate:
        """What such a job would take, each figure with its basis: `--dry-run`. Writes nothing.

        Raises what `submit` would raise.
        """
        with (
            self._template(kind, source, model, options, params) as template,
            self._wiring.launching.items(template.source) as items,
        ):
            self._wiring.launching.check(template, key, items)
            return self._wiring.estimating.estimate(template, items)

    def _template(
        self,
        kind: str,
        source: Source | str | Path | Items,
        model: str | None,
        options: dict[str, Any] | None,
        params: dict[str, Any],
    ) -> AbstractContextManager[JobTemplate]:
        """What is asked for, as long as the context is open."""
        given = params if model is None else {**params, "model": model}
        return template_of(kind, source, given, options, self._wiring.data)

    def evaluate(
        self,
        source: Source | str | Path | Items,
        *,
        scorers: Sequence[str],
        model: str | None = None,
        key: str | None = None,
        input_field: str = "text",
        expected_field: str | None = None,
        output_field: str | None = None,
        options: dict[str, Any] | None = None,
        **params: Any,
    ) -> JobHandle:
        """Score the answers of `model`, or those in `output_field`: `giveway eval run`.

        Fields that the prompt names are columns of the same name. Of dicts the fields are `text`,
        `expected` and `output`. Wait for the job, then read `evaluation`.
        """
        check_installed()
        source = named_frame(source)
        is_named = isinstance(source, Source | str | Path)
        if (model is None) == (output_field is None) and (is_named or model is not None):
            raise UsageError("name a model, or the field with the answers, and not both")
        given = {**params, "scorers": tuple(scorers)} | ({} if model is None else {"model": model})
        if isinstance(source, Source | str | Path):
            source = with_columns(source, given, input_field, expected_field, output_field)
        return self.submit("evaluate", source, key=key, options=options, **given)

    def job(self, reference: str | int) -> JobHandle:
        """The job with this key or id. NotFound: there is none."""
        return JobHandle(self._wiring, self._wiring.inspection.job(str(reference)).job)

    def jobs(self, most: int = 20, states: Sequence[JobState | str] = ()) -> list[JobHandle]:
        """The newest jobs first. UnknownName: no such state."""
        wanted = tuple(word(JobState, "job state", state) for state in states)
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
        return people.ask(self._asker, asked, deadline_s)

    def embed(
        self, texts: Sequence[str], *, model: str, priority: int = 0, deadline_s: float = 120.0
    ) -> NDArray[np.float32]:
        """Vectors of `texts` at once: (len(texts), dimension), same order."""
        return people.embed(self._asker, texts, model, priority, deadline_s)

    @cached_property
    def _asker(self) -> Asker:
        from app.worker.asking import asker

        return asker(self._wiring)

    def search(self, collection: str, query: str, most: int = 10) -> list[Hit]:
        """The items of a collection nearest to `query`. NotFound: no such collection."""
        return self._wiring.searching.search(collection, query, most)

    @cached_property
    def schedules(self) -> Schedules:
        """Jobs by the clock."""
        return Schedules(self._wiring)

    @cached_property
    def collections(self) -> Collections:
        """Collections of vectors."""
        return Collections(self._wiring)

    @cached_property
    def throttle(self) -> Throttle:
        """Limits."""
        return Throttle(self._wiring)

    @cached_property
    def endpoints(self) -> Endpoints:
        """Model servers."""
        return Endpoints(self._wiring)

    def evaluation(
        self, reference: str | int, most_unscored: float = MOST_UNSCORED
    ) -> EvaluationRun:
        """An evaluation job's scores so far, with their intervals; `refused` says why there is no
        verdict."""
        return self._wiring.evaluation.run(str(reference), most_unscored)

    def compare(
        self,
        first: str | int,
        second: str | int,
        most_unscored: float = MOST_UNSCORED,
        *,
        margin: float | Mapping[str, float] | None = None,
        shared_only: bool = False,
    ) -> Pair:
        """Two evaluations over the same items: paired tests, and the flips. `margin`: by how much
        the second may be worse, of all metrics or by metric. StateConflict: they are over different
        items, which `shared_only` allows."""
        margins: dict[str | None, float] = {}
        if margin is not None:
            margins.update(margin.items() if isinstance(margin, Mapping) else [(None, margin)])
        return self._wiring.evaluation.pair(
            str(first), str(second), most_unscored, margins=margins, shared_only=shared_only
        )

    def report(self, since_s: float = 3600.0) -> Report:
        """Everything that happened in the last `since_s` seconds."""
        return self._wiring.reporting.report(since_s)
