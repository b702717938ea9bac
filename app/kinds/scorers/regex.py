"""regex: the answer matches a pattern, one for all items or each item's expected text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, field_validator

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, unscored

TIMEOUT = "regex_timeout"
BAD_PATTERN = "bad_pattern"


class RegexOptions(Options):
    """The pattern may match anywhere in the answer; ^ and $ hold it to the ends."""

    pattern: str | None = None
    """The pattern; default: what the item expects."""
    ignore_case: bool = False
    """Whether A and a are the same."""
    timeout_s: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Longest search in one answer: a pattern that backtracks without end holds nobody up."""

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        import regex

        try:
            regex.compile(pattern or "")
        except regex.error as error:
            raise ValueError(f"not a pattern: {error}") from None
        return pattern


@dataclass(frozen=True, slots=True)
class Regex:
    """The scorer."""

    name: str = "regex"
    rate: bool = True
    needs: tuple[str, ...] = ("regex",)
    options: type[Options] = RegexOptions

    def score(self, case: Case, options: RegexOptions) -> Score:
        """1 where it matches."""
        import regex

        patterns = case.references if options.pattern is None else [options.pattern]
        if not patterns:
            return unscored(NO_EXPECTED)
        flags = regex.IGNORECASE if options.ignore_case else 0
        try:
            found = any(
                regex.search(pattern, case.answer, flags=flags, timeout=options.timeout_s)
                for pattern in patterns
            )
        except TimeoutError:
            return unscored(TIMEOUT)
        except regex.error:
            return unscored(BAD_PATTERN)
        return Score(float(found))


SCORER = Regex()
