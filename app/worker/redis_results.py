"""Results on Redis and Valkey with one round trip less before somebody has their answer."""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend
from celery.states import SUCCESS


class QuickRedisBackend(RedisBackend):
    """Celery's looks before it stores, so that no late failure takes the place of an answer. An
    answer may be stored without: it would only take the place of another answer."""

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str,
        traceback: Any = None,
        request: Any = None,
        **more: Any,
    ) -> Any:
        if state != SUCCESS:
            return super()._store_result(task_id, result, state, traceback, request, **more)
        meta = self._get_result_meta(
            result=result, state=state, traceback=traceback, request=request
        )
        meta["task_id"] = task_id
        self._set_with_state(self.get_key_for_task(task_id), self.encode(meta), state)
        return result

    def _set(self, key: Any, value: Any, expires: float | None = None) -> None:
        """Who listens is told after it is stored, which needs no transaction."""
        with self.client.pipeline(transaction=False) as pipe:
            pipe.set(key, value, ex=(self.expires if expires is None else expires) or None)
            pipe.publish(key, value)
            pipe.execute()
