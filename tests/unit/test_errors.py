"""Errors travel: through pickle, and through a result that Celery stores."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest
from celery import Celery

from app import errors


def every(cls: type[errors.GivewayError]) -> Iterator[type[errors.GivewayError]]:
    yield cls
    for below in cls.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from every(below)


ALL = sorted(every(errors.GivewayError), key=lambda cls: cls.__name__)


def an(cls: type[errors.GivewayError]) -> errors.GivewayError:
    if cls is errors.UnknownName:
        return errors.UnknownName("model", "gpt", ["b", "a"])
    if cls is errors.BadSource:
        return errors.BadSource("docs.csv: 1 bad", ["line 3: no text"], 1)
    if issubclass(cls, errors.EndpointError):
        return cls("slow down", 2.0)
    return cls("what, which, and what would be right")


@pytest.mark.parametrize("cls", ALL)
def test_an_error_is_made_again_from_its_args(cls: type[errors.GivewayError]) -> None:
    error = an(cls)
    again = cls(*error.args)

    assert (type(again), str(again), again.args) == (cls, str(error), error.args)


@pytest.mark.parametrize("cls", ALL)
def test_an_error_is_whole_after_pickling(cls: type[errors.GivewayError]) -> None:
    error = an(cls)
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), vars(again)) == (cls, str(error), vars(error))


@pytest.mark.parametrize("cls", ALL)
def test_who_waits_for_a_celery_result_gets_the_same_class(cls: type[errors.GivewayError]) -> None:
    backend = Celery(set_as_current=False, backend="cache+memory://").backend
    error = an(cls)
    stored = json.loads(json.dumps(backend.prepare_exception(error, serializer="json")))
    again = backend.exception_to_python(stored)

    assert (type(again), str(again)) == (cls, str(error))


def test_an_unknown_name_lists_the_known_ones_in_order() -> None:
    assert str(an(errors.UnknownName)) == "no model 'gpt'; known: a, b"
    assert str(errors.UnknownName("pool", "x", [])) == "no pool 'x'; known: none"
    assert str(errors.UnknownName("text")) == "text"
