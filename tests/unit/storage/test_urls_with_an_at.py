"""An @ in a password that was not written as %40: refused, and no part of it is shown."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.errors import UsageError
from app.settings.processes import DatabaseSettings
from app.storage.sources.urls import masked_url

LEAKY = [
    "postgresql://me:hun@ter2@host/db",
    "postgresql://me:hun@ter/2@host/db",
    "mysql+pymysql://me:hun@ter2@host/db",
]


@pytest.mark.parametrize("url", LEAKY)
def test_it_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="with @ and / in a password as %40 and %2F") as caught:
        masked_url(url)
    assert "hun" not in str(caught.value)
    assert "ter" not in str(caught.value)


@pytest.mark.parametrize("url", LEAKY[:2])
def test_the_settings_refuse_it_too(url: str) -> None:
    with pytest.raises(ValidationError, match="more than one @; write one in a password as %40"):
        DatabaseSettings(url=url)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hun%40ter2@host/db", "postgresql://me:***@host/db"),
        ("sqlite:////data/a@b/c.db", "sqlite:////data/a%40b/c.db"),
        ("postgresql://host/db?user=me@corp", "postgresql://host/db?user=me%40corp"),
    ],
)
def test_an_at_elsewhere_is_none_of_a_password(url: str, shown: str) -> None:
    assert masked_url(url) == shown
