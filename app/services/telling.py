"""Telling: webhooks of jobs that ended are sent, signed, again and again until they are heard.

Each attempt is leased in one short transaction, made with none open, and settled in another: one
that was sent while its settling got lost is sent twice, under the same id.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import orjson
from standardwebhooks.webhooks import Webhook

from app import clock
from app.domain.events import DeliveryGivenUp, Observer
from app.domain.retry import RetryPolicy
from app.domain.webhooks import (
    FIRST_PAUSE_S,
    Again,
    GiveUp,
    Heard,
    after_attempt,
    no_secret,
    signing_key,
)
from app.inference.posting import Posted, post
from app.storage.database import Database
from app.storage.webhook_store import Delivery, WebhookStore

log = logging.getLogger(__name__)

_AT_ONCE = 32
_THREADS = 8
_MARGIN_S = 30.0
_ERROR_LENGTH = 300


class Telling:
    """The use case behind the tick that tells."""

    def __init__(
        self,
        database: Database,
        max_attempts: int,
        timeout_s: float,
        observer: Observer,
        jitter: Callable[[], float],
        *,
        allow_private: bool,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._database = database
        self._policy = RetryPolicy(max_attempts, first_pause_s)
        self._timeout_s = timeout_s
        self._observer = observer
        self._jitter = jitter
        self._allow_private = allow_private
        self._busy = threading.Lock()

    def tell(self) -> int:
        """Send what is due; how many were sent. At most one thread a process does so at a time:
        receivers that do not answer must not hold every thread."""
        if not self._busy.acquire(blocking=False):
            return 0
        try:
            return self._tell()
        finally:
            self._busy.release()

    def _tell(self) -> int:
        # As long as the slowest of them may take when all wait for a thread.
        lease_s = self._timeout_s * (_AT_ONCE / _THREADS) + _MARGIN_S
        with self._database.transaction() as tx:
            due = WebhookStore(tx).take(_AT_ONCE, lease_s)
        if not due:
            return 0
        with ThreadPoolExecutor(min(_THREADS, len(due)), "giveway-webhook") as threads:
            for delivery, posted in zip(due, threads.map(self._sent, due), strict=True):
                self._settle(delivery, posted)
        return len(due)

    def _sent(self, delivery: Delivery) -> Posted:
        content = orjson.dumps(delivery.body)
        now = clock.now()
        try:
            signature = _signer(delivery.secret_env).sign(
                str(delivery.message_id), now, content.decode()
            )
        except ValueError as error:
            return Posted(None, str(error))
        headers = {
            "content-type": "application/json",
            "user-agent": "giveway",
            "webhook-id": str(delivery.message_id),
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
        return post(
            delivery.url, content, headers, self._timeout_s, allow_private=self._allow_private
        )

    def _settle(self, delivery: Delivery, posted: Posted) -> None:
        step = after_attempt(
            posted.status, delivery.attempt, self._policy, posted.retry_after_s, self._jitter()
        )
        error = (posted.error or f"it answered {posted.status}")[:_ERROR_LENGTH]
        with self._database.transaction() as tx:
            store = WebhookStore(tx)
            match step:
                case Heard():
                    store.delivered(delivery, posted.status or 0)
                case Again(after_s):
                    store.again(delivery, after_s, posted.status, error)
                case GiveUp():
                    store.given_up(delivery, posted.status, error)
        if isinstance(step, GiveUp):
            log.warning("the webhook of job %s was given up: %s", delivery.job_id, error)
            self._observer.saw(DeliveryGivenUp(delivery.job_id, posted.status))


def _signer(variable: str) -> Webhook:
    """What signs with the secret in the environment. ValueError: there is none, or it is none."""
    secret = os.environ.get(variable)
    if not secret:
        raise ValueError(f"the control worker's environment has no {variable}")
    key = signing_key(secret)
    if key is None:
        raise ValueError(no_secret(variable))
    return Webhook(key)
