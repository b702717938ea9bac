"""The doorbell that services ring. A ring may be lost, repeated or late without harm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Doorbell(Protocol):
    """Whoever can tell batch workers that there may be work. Never raises."""

    def waiting(self) -> int:
        """How many rings no worker has taken yet; 0 where that cannot be known."""
        ...

    def ring(self, rings: Sequence[tuple[int, str]]) -> int:
        """Publish one ring a (job id, kind); how many went out."""
        ...


class NoDoorbell:
    """A bell that nobody hears."""

    def waiting(self) -> int:
        """Nothing waits."""
        return 0

    def ring(self, rings: object) -> int:  # noqa: ARG002
        """Nothing goes out."""
        return 0
