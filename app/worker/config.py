"""Celery's configuration, from our settings. Celery is the doorbell; nothing here is a brain."""

from __future__ import annotations

from typing import Any

from app.errors import StackNotRunning
from app.settings import Settings
from app.worker import queues

_NO_RESULT = {"ignore_result": True}
_RESULT_S = 5.0
"""How long one operation on an answer may take, where Redis or Valkey keeps answers."""
_CONSUMING_S = 10.0
"""The same where messages are taken: longer than the broker lets a taker wait for one."""


def broker_url(settings: Settings) -> str:
    """The broker's URL. StackNotRunning: none is known."""
    if settings.broker.url is None:
        raise StackNotRunning(
            "no broker is known: start the stack with `giveway up`, name its folder with --data or "
            "GIVEWAY_DATA, or set GIVEWAY_BROKER__URL"
        )
    return settings.broker.url.get_secret_value()


def configuration(settings: Settings) -> dict[str, Any]:
    """What `Celery.conf` is updated with."""
    url = broker_url(settings)
    is_redis = url.startswith("redis")
    given = settings.broker.result_url
    results = given.get_secret_value() if given else (url if is_redis else "rpc://")
    interactive = settings.interactive
    # Longer than the longest an interactive message can be held, or Redis delivers it again.
    visible_s = interactive.deadline_s + interactive.call_timeout_s + 60
    return {
        "broker_url": url,
        "result_backend": results,
        "result_expires": interactive.result_ttl_s,
        "broker_transport_options": _transport(is_redis, visible_s),
        "broker_connection_timeout": max(1.0, settings.broker.connect_timeout_s),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "redis_socket_connect_timeout": max(1.0, settings.broker.connect_timeout_s),
        "redis_socket_timeout": _RESULT_S,
        "redis_socket_keepalive": True,
        "redis_backend_health_check_interval": 10,
        "task_queues": queues.queues(url),
        "task_default_queue": queues.INTERACTIVE,
        "task_create_missing_queues": False,
        "task_routes": {
            "giveway.interactive.*": {"queue": queues.INTERACTIVE},
            "giveway.batch.*": {"queue": queues.BATCH},
            "giveway.control.*": {"queue": queues.CONTROL},
        },
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        "result_accept_content": ["json"],
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "task_track_started": True,
        # Only what a worker takes up is shown: a ring or a tick that expires is nothing to look at.
        "task_send_sent_event": False,
        "worker_send_task_events": True,
        "worker_consumer": "app.worker.consuming:EventsTogether",
        "worker_prefetch_multiplier": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "enable_utc": True,
        "timezone": "UTC",
        "beat_schedule": _ticks(settings),
        "beat_max_loop_interval": settings.throttle.tick_s,
    }


def publishing(settings: Settings) -> dict[str, float]:
    """Transport options of a connection that publishes: each of its operations has a deadline."""
    deadline_s = settings.broker.publish_timeout_s
    if broker_url(settings).startswith("redis"):
        return {"socket_timeout": deadline_s}
    # RabbitMQ confirms each message: without these that is waited for as long as it takes.
    return {"read_timeout": deadline_s, "write_timeout": deadline_s}


def _transport(is_redis: bool, visible_s: float) -> dict[str, Any]:
    if not is_redis:
        return {"confirm_publish": True}
    return {
        "visibility_timeout": visible_s,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "socket_connect_timeout": 1.0,
        "socket_timeout": _CONSUMING_S,
        "priority_steps": list(queues.PRIORITY_STEPS),
    }


def _ticks(settings: Settings) -> dict[str, Any]:
    """Ticks are idempotent and expire: a control worker that was away has no backlog of them."""
    tick_s = settings.throttle.tick_s

    def every(name: str, period_s: float) -> dict[str, Any]:
        return {
            "task": f"giveway.control.{name}",
            "schedule": period_s,
            "options": {"expires": max(period_s, 1.0), "queue": queues.CONTROL, **_NO_RESULT},
        }

    return {
        "throttle": every("throttle", tick_s),
        "rescue": every("rescue", 2.0),
        "complete": every("complete", 2.0),
        "prune": every("prune", 60.0),
        "probe": every("probe", 2.0),
        "schedule": every("schedule", 2.0),
        "tell": every("tell", 2.0),
        **({"scale": every("scale", settings.scaling_tick_s)} if settings.scaling else {}),
        "learn": every("learn", 15.0),
        "index": every("index", 30.0),
    }
