"""Launching: a template becomes a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app import clock
from app.domain.moments import moment
from app.kinds.base import checked
from app.kinds.registry import kind as kind_named
from app.services.items import SourceItems, Told, opened_items, untold
from app.services.submission import JobRequest, Submission, Submitted
from app.services.templates import JobTemplate, SourceTemplate, window_of


class Launching:
    """The use case: a template becomes a job. Nothing is rung for."""

    def __init__(self, submission: Submission, folder: Path | None = None) -> None:
        self._submission = submission
        self._folder = folder
        """Where spooled sources go; None: the machine's own place."""

    def launch(
        self,
        template: JobTemplate,
        key: str | None,
        reading: Told = untold,
        loading: Told = untold,
    ) -> Submitted:
        """Resolve the source and submit it: see `Submission.submit`, whose errors it raises.

        The same key with the same content gives the same job, whoever launches it.
        """
        with self.items(template.source, reading, loading) as items:
            return self.submit(template, key, items)

    @contextmanager
    def items(
        self, source: SourceTemplate, reading: Told = untold, loading: Told = untold
    ) -> Iterator[SourceItems]:
        """The items of `source`, for as long as the context is open. BadSource, UsageError."""
        with opened_items(source.asked, source.options, self._folder, reading, loading) as items:
            yield items

    def submit(self, template: JobTemplate, key: str | None, items: SourceItems) -> Submitted:
        """Submit with items that are open already; doing it again is harmless."""
        return self._submission.submit(self.request(template, key, items), items)

    def check(self, template: JobTemplate, key: str | None, items: SourceItems) -> None:
        """Raise what `submit` would raise: see `Submission.check`. Writes nothing."""
        self._submission.check(self.request(template, key, items), items)

    def request(self, template: JobTemplate, key: str | None, items: SourceItems) -> JobRequest:
        """What is asked for, as of now. BadParams, UnknownName, UsageError."""
        kind = kind_named(template.kind)
        window = window_of(template.window)
        collection = kind.collection(checked(kind, template.params))
        delete_missing = template.delete_missing
        if delete_missing is None:
            delete_missing = items.whole
        return JobRequest(
            kind=template.kind,
            params=template.params,
            key=key,
            name=template.name,
            priority=template.priority,
            weight=template.weight,
            max_in_flight=template.max_in_flight,
            may_yield=template.may_yield,
            resume_streamed=template.resume_streamed,
            deadline_at=moment(template.deadline, clock.now()),
            chunk_items=template.chunk_items,
            tenant=template.tenant,
            after=template.after,
            window=window.to_json() if window is not None else None,
            failover=template.failover,
            budget=template.budget,
            source=items.identity(),
            delete_missing=delete_missing and collection is not None,
            webhook=None if template.webhook is None else template.webhook.model_dump(),
        )
