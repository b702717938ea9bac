"""How a worker takes messages: Celery's way, but that its events go out several together.

Celery publishes the events of a task (received, started, succeeded) one by one, each a round trip
to the broker on the thread that takes messages: at a hundred people a second a tenth of the
worker's work. Whoever looks on sees them a moment later.
"""

from __future__ import annotations

from typing import Any

from celery.worker.consumer import Consumer

from app import clock

_TOGETHER_S = 0.05
"""How long an event waits for others. Celery itself sends 24 at once."""
_LOST_S = 1.0
"""What was put off and did not happen by then, as when the connection is made again, is put off
anew."""


class EventsTogether(Consumer):
    """Celery's consumer, named in `worker_consumer`."""

    _put_off_until_s = 0.0

    def on_send_event_buffered(self) -> None:
        """An event waits to be sent. Called by any thread."""
        now_s = clock.monotonic_s()
        if self.hub and now_s >= self._put_off_until_s:
            self._put_off_until_s = now_s + _LOST_S
            self.hub.call_soon(self._put_off)

    def shutdown(self) -> None:
        """What waits is sent before the connection is closed."""
        self._flush_events()
        super().shutdown()

    def _put_off(self) -> Any:
        return self.hub.call_later(_TOGETHER_S, self._flush_events)

    def _flush_events(self) -> None:
        self._put_off_until_s = 0.0
        super()._flush_events()
