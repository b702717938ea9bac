"""Refusals: what no job can be, judged by what is asked alone.

Sources, endpoints and other jobs are not looked at, since they may come later: so a template is
judged when it is given, however long before its job is launched, and a job by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.domain.cleaning import cleaned_json
from app.domain.jobs import Failover
from app.domain.naming import MOST_OF_A_KEY, check_name
from app.errors import BadParams, UsageError
from app.kinds.base import Kind, Params, models_of


def check_job(
    kind: Kind,
    params: Params,
    *,
    name: str | None,
    failover: Failover,
    resume_streamed: bool,
    delete_missing: bool | None,
) -> None:
    """UsageError, BadParams: no job of `kind` with `params` can be so. The rest: see `JobTemplate`.

    Whether an endpoint goes on with answers, `resuming.check_resumes` says.
    """
    if name:
        check_name("name", name, MOST_OF_A_KEY)
    has_vectors = kind.collection(params) is not None
    if failover is Failover.DEGRADED and has_vectors:
        raise BadParams(
            "vectors of another model must not come into the collection: failover may be wait "
            "or backup for this job, not degraded"
        )
    if resume_streamed and (has_vectors or not models_of(kind, params)):
        raise BadParams(
            f"a job of kind {kind.name} like this streams no text; leave out --resume-streamed"
        )
    if delete_missing and not has_vectors:
        raise UsageError(f"a job of kind {kind.name} makes no vectors: nothing to delete")


def check_keepable(given: Mapping[str, Any]) -> None:
    """BadParams: what is given holds what Postgres does not keep. Nobody writes that on purpose."""
    for name, value in given.items():
        flags = cleaned_json(value).flags
        if flags:
            raise BadParams(
                f"{name} holds what cannot be kept ({', '.join(sorted(flags))}): leave out NUL, "
                "halves of characters, NaN and infinity"
            )
