"""Looking at the broker, for an examination: never an error, never long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from app import clock
from app.domain.examination.broker import Broker
from app.errors import StackNotRunning
from app.settings import Settings
from app.settings.secrets import shown
from app.worker.config import broker_url, configuration
from app.worker.queues import NAMES, PRIORITY_STEPS, is_rabbitmq, queues

_PATIENCE_S = 2.0
_SEPARATOR = "\x06\x16"
"""Kombu's, between a queue and a priority above the first."""
_OUR_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


def look(settings: Settings) -> Broker:
    """How the broker stands."""
    try:
        url = broker_url(settings)
    except StackNotRunning as error:
        return Broker("broker", why_not=str(error))
    assert settings.broker.url is not None
    where = shown(settings.broker.url)
    began_s = clock.monotonic_s()
    try:
        if is_rabbitmq(url):
            facts = _rabbitmq(url)
        else:
            options = configuration(settings)["broker_transport_options"]
            facts = {**_redis(url), "visible_s": options["visibility_timeout"]}
    except Exception as error:  # noqa: BLE001 - each client has errors of its own; all mean the same
        return Broker(where, why_not=f"does not answer: {_said(error)}")
    return Broker(where, answers_ms=(clock.monotonic_s() - began_s) * 1000, **facts)


def _redis(url: str) -> dict[str, Any]:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    parts = urlsplit(url)
    tls = {name: value for name, value in parse_qsl(parts.query) if name in _OUR_TLS}
    if "ssl_cert_reqs" in tls:  # Celery writes CERT_REQUIRED where the client has `required`.
        tls["ssl_cert_reqs"] = tls["ssl_cert_reqs"].lower().removeprefix("cert_")
    with Redis.from_url(
        urlunsplit(parts._replace(query="")),
        socket_connect_timeout=_PATIENCE_S,
        socket_timeout=_PATIENCE_S,
        retry=Retry(NoBackoff(), 0),
        **tls,
    ) as client:
        info: Mapping[str, Any] = client.info()
        keys = [(name, step) for name in NAMES for step in PRIORITY_STEPS]
        with client.pipeline(transaction=False) as pipe:
            for name, step in keys:
                pipe.llen(f"{name}{_SEPARATOR}{step}" if step else name)
            sizes = pipe.execute()
    waiting = dict.fromkeys(NAMES, 0)
    for (name, _), size in zip(keys, sizes, strict=True):
        waiting[name] += int(size)
    is_valkey = "valkey_version" in info
    version = info["valkey_version"] if is_valkey else info.get("redis_version", "")
    return {
        "server": f"{'Valkey' if is_valkey else 'Redis'} {version}",
        "policy": str(info.get("maxmemory_policy", "")) or None,
        "used_bytes": int(info.get("used_memory", 0)),
        "most_bytes": int(info.get("maxmemory", 0)),
        "read_only": info.get("role") in ("slave", "replica"),
        "waiting": waiting,
    }


def _rabbitmq(url: str) -> dict[str, Any]:
    from kombu import Connection

    from app.worker.shared_queues import declared_otherwise

    timeouts = {"read_timeout": _PATIENCE_S, "write_timeout": _PATIENCE_S}
    waiting: dict[str, int] = {}
    otherwise: dict[str, str] = {}
    with Connection(url, connect_timeout=_PATIENCE_S, transport_options=timeouts) as connection:
        transport = connection.transport
        # The connection itself would try again and again.
        own = transport.establish_connection()
        try:
            told = own.server_properties
            for name in NAMES:
                channel = transport.create_channel(own)
                try:
                    waiting[name] = channel.queue_declare(queue=name, passive=True).message_count
                except connection.channel_errors:  # It is not there: no worker has made it yet.
                    continue
                channel.close()
            for queue in queues(url):
                differs = declared_otherwise(own, queue)
                if differs is not None:
                    otherwise[queue.name] = differs
        finally:
            transport.close_connection(own)
    server = f"{told.get('product', 'AMQP')} {told.get('version', '')}".strip()
    return {"server": server, "waiting": waiting, "otherwise": otherwise}


def _said(error: Exception) -> str:
    """The kind of the error, and the system's word for it; never its whole text, which may hold
    what was in the address."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
