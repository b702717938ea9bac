"""Names that people give to what is kept."""

from __future__ import annotations

import pytest

from app.domain.naming import MOST_OF_A_KEY, check_name
from app.errors import UsageError


@pytest.mark.parametrize(
    "name", ["k", "nightly@2027-03-28T03:00+02:00", "Ärger & Söhne", "x" * 200]
)
def test_what_people_can_read_is_a_name(name: str) -> None:
    check_name("key", name, MOST_OF_A_KEY)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "key '' has 0 characters; it wants 1 to 200"),
        ("x" * 3000, "… has 3,000 characters|has 3,000 characters; it wants 1 to 200"),
        ("a\x00b", "has a control character"),
        ("a\nb", "has a control character"),
        ("a\udcff", "has a control character"),
        (" a", "begins or ends with a blank"),
    ],
)
def test_what_no_index_or_no_terminal_takes_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        check_name("key", name, MOST_OF_A_KEY)
    assert len(str(caught.value)) < 200
