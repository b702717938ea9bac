"""What the simulated endpoint was asked, counted for tests."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

_TIMINGS_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class Timing:
    """One request over, in seconds since it arrived. `first_token_s` None: there was none.

    `arrived_s` is on the server's own clock; `tokens` are those it made, `prompt_tokens` those it
    was given, 0 where it did not get so far as to count them.
    """

    path: str
    outcome: str
    first_token_s: float | None
    seconds: float
    tokens: int
    arrived_s: float = 0.0
    prompt_tokens: int = 0


class Ledger:
    """Counts of requests and inputs. `by_input` counts every single text too, by its hash: 16
    bytes and a number for each distinct one."""

    def __init__(self, *, by_input: bool) -> None:
        self._by_input = by_input
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.requests = 0
        self.inputs = 0
        self.most_in_flight = 0
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._times_sent: Counter[bytes] = Counter()
        self._timings: deque[Timing] = deque(maxlen=_TIMINGS_KEPT)

    def asked(self, in_flight: int) -> None:
        """A request has arrived; with it `in_flight` are open."""
        self.requests += 1
        self.most_in_flight = max(self.most_in_flight, in_flight)

    def embedded(self, texts: Sequence[str]) -> None:
        """Vectors of `texts` have been computed and go out."""
        self.inputs += len(texts)
        if self._by_input:
            self._times_sent.update(
                blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
                for text in texts
            )

    def over(self, timing: Timing) -> None:
        """A request has ended, well or not."""
        self.outcomes[timing.path, timing.outcome] += 1
        self._timings.append(timing)

    def shown(self, most_running: int) -> dict[str, Any]:
        """All counts as JSON. The per-input counts are null unless they were asked for."""
        times = self._times_sent.values() if self._by_input else None
        return {
            "requests": self.requests,
            "inputs": self.inputs,
            "distinct_inputs": None if times is None else len(times),
            "inputs_sent_more_than_once": None if times is None else sum(n > 1 for n in times),
            "most_times_one_input_was_sent": None if times is None else max(times, default=0),
            "most_running": most_running,
            "most_in_flight": self.most_in_flight,
            "outcomes": [
                {"path": path, "outcome": outcome, "count": count}
                for (path, outcome), count in sorted(self.outcomes.items())
            ],
            "timings": [asdict(timing) for timing in self._timings],
        }
