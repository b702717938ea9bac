"""What `giveway throttle tune` is told: NAME=VALUE, as names and numbers or words."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import UsageError


def changes_in(texts: Sequence[str]) -> dict[str, int | float | str]:
    """The changes by name. UsageError: not NAME=VALUE, or a name that is said twice.

    Which names there are, and what each may be, `services.steering` knows.
    """
    found: dict[str, int | float | str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UsageError(f"say NAME=VALUE, such as target_p95_ms=400; not {text!r}")
        if name in found:
            raise UsageError(f"{name} is said twice: {found[name]} and {value}")
        found[name] = number_or_word(value)
    return found


def number_or_word(text: str) -> int | float | str:
    """`3` whole, `0.5` and `1e3` with a fraction, anything else as it stands."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
