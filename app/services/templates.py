"""Templates: what a person can ask for, as a value that can be kept and made a job of at any time.

The command line, schedules and the Python API all make a `JobTemplate`; a schedule keeps it as
JSON in its row.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from app.domain.jobs import Failover
from app.domain.moments import moment
from app.domain.webhooks import no_secret, signing_key
from app.domain.windows import Window, parsed
from app.errors import UsageError
from app.kinds.base import Kind, Params, checked, fields_of
from app.kinds.registry import kind as kind_named
from app.services.refusals import check_job, check_keepable
from app.storage.sources.base import Asked, ReadOptions
from app.storage.sources.origins import check_asked, kept_as

MOST = 1_000_000
"""Priorities, weights and places are no larger: larger ones are slips, and no column holds them."""
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceTemplate(_Value):
    """Where the items come from and how they are read.

    `uri`: a file, `-` for standard input, a folder, `postgresql://…` or any SQLAlchemy URL,
    `hf:dataset/config@split`, or `env:NAME` where the variable NAME holds one of these. The other
    fields: see `ReadOptions` and `Asked`.
    """

    uri: str
    query: str | None = None
    table: str | None = None
    keyset: bool = False
    id_field: str | None = None
    text_field: str | None = "text"
    fields: dict[str, str] = {}
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    lenient: bool = False
    limit: Annotated[int, Field(ge=1)] | None = None
    where: str | None = None

    @property
    def asked(self) -> Asked:
        """The place that is meant."""
        return Asked(self.uri, self.query, self.table, self.keyset)

    @property
    def options(self) -> ReadOptions:
        """How it is read."""
        return ReadOptions(
            id_field=self.id_field,
            text_field=self.text_field,
            fields=self.fields,
            delimiter=self.delimiter,
            encoding=self.encoding,
            format=self.format,
            lenient=self.lenient,
            where=self.where,
            limit=self.limit,
        )

    def kept(self, folder: Path) -> SourceTemplate:
        """The same for later and elsewhere: paths from `folder` become full ones.

        UsageError: standard input, which is gone later; or a URL with a password, which must not
        stand in a row: `env:NAME` keeps it out.
        """
        return self.model_copy(update={"uri": kept_as(self.uri, folder)})


class WebhookTemplate(_Value):
    """Who is told of the job's end; the signing secret is in the variable `secret_env`."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")]
    secret_env: Variable

    @field_validator("url")
    @classmethod
    def _has_no_password(cls, url: str) -> str:
        if "@" in urlsplit(url).netloc:
            raise UsageError(
                "a user or password in the webhook's URL would be kept in the database; leave it "
                "out: calls are signed with the secret"
            )
        return url


class JobTemplate(_Value):
    """All that can be asked of a job. `params` hold the model too.

    `deadline` (`8h`, `2026-12-01T06:00`) counts from the launch; `window` is hours of the day
    (`22:00-06:00 Europe/Berlin`); `after` names jobs by key or id. `resume_streamed`: calls
    that are closed for people go on later from what they had given. `delete_missing` None: yes
    where the source is known to give all there is and the kind makes vectors.
    """

    kind: str
    params: dict[str, Any]
    source: SourceTemplate
    name: str | None = None
    priority: Annotated[int, Field(ge=-MOST, le=MOST)] = 0
    weight: Annotated[float, Field(gt=0, le=MOST)] = 1.0
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] = "default"
    max_in_flight: Annotated[int, Field(ge=1, le=MOST)] | None = None
    may_yield: bool = True
    resume_streamed: bool = False
    chunk_items: Annotated[int, Field(ge=1, le=100_000)] | None = None
    failover: Failover = Failover.WAIT
    budget: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    deadline: str | None = None
    window: str | None = None
    after: tuple[str, ...] = ()
    webhook: WebhookTemplate | None = None
    delete_missing: bool | None = None

    @field_validator("deadline")
    @classmethod
    def _is_a_moment(cls, value: str | None) -> str | None:
        moment(value, datetime.min.replace(tzinfo=UTC))  # Whether it has passed, the launch says.
        return value

    @field_validator("window")
    @classmethod
    def _is_hours(cls, value: str | None) -> str | None:
        window_of(value)
        return value

    @model_validator(mode="after")
    def _deletes_only_what_it_can_know(self) -> JobTemplate:
        if self.delete_missing and self.source.limit is not None:
            raise UsageError(
                "--delete-missing with --limit would delete whatever the limit left out; "
                "leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _resumes_only_what_may_be_closed(self) -> JobTemplate:
        if self.resume_streamed and not self.may_yield:
            raise UsageError(
                "--resume-streamed is about calls that are closed to make room, which --no-yield "
                "forbids; leave one of them out"
            )
        return self

    def kept(self, folder: Path) -> JobTemplate:
        """The same for later and elsewhere; see `SourceTemplate.kept`."""
        return self.model_copy(update={"source": self.source.kept(folder)})


def checked_template(raw: Mapping[str, Any]) -> JobTemplate:
    """`raw` (such as a schedule's row) as a template. UsageError and its leaves: what can be told
    before the source is there."""
    try:
        template = JobTemplate.model_validate(raw)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise UsageError(f"no such job can be: {faults}") from None
    kind = kind_named(template.kind)
    params = checked(kind, template.params)
    check_job(
        kind,
        params,
        name=template.name,
        failover=template.failover,
        resume_streamed=template.resume_streamed,
        delete_missing=template.delete_missing,
    )
    webhook = None if template.webhook is None else template.webhook.model_dump()
    check_keepable(
        {**params.model_dump(mode="json"), "tenant": template.tenant, "webhook": webhook}
    )
    check_asked(template.source.asked, template.source.options)
    _check_fields(template, kind, params)
    return template


def asked_template(raw: Mapping[str, Any]) -> JobTemplate:
    """`raw` as `checked_template` has it, for whoever asks for it now: where the variable of the
    signing secret is set here too, it holds one. A schedule is launched without that: a job is
    worth more than the telling of its end. UsageError."""
    template = checked_template(raw)
    variable = None if template.webhook is None else template.webhook.secret_env
    secret = os.environ.get(variable) if variable else None
    if variable and secret and signing_key(secret) is None:
        raise UsageError(no_secret(variable))
    return template


def _check_fields(template: JobTemplate, kind: Kind, params: Params) -> None:
    """UsageError: the kind looks at a field of each item that no item will have."""
    source = template.source
    if source.text_field is None and not source.fields:
        return  # Items are whole records; what is in them is not known yet.
    asked = fields_of(kind, params)
    missing = [name for name, must in asked.items() if must and name not in source.fields]
    if missing:
        names = ", ".join(repr(name) for name in missing)
        has = ", ".join(filter(None, (source.text_field and "text", *sorted(source.fields))))
        raise UsageError(
            f"a job of kind {kind.name} like this looks at {names} of each item, but items have "
            f"only {has}; say which column it is, with --field {missing[0]}=COLUMN"
        )


def window_of(said: str | None) -> Window | None:
    """Hours of the day; None: any hour. The command line writes the zone after an @, so that no
    blank needs quotes."""
    return None if said is None else parsed(said.replace("@", " "))
