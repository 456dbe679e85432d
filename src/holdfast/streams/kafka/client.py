"""Kafka's client library. It is optional and blocking: imported on demand, and called in threads and in short slices.

A slice is short because a thread cannot be cancelled, and a stopping server would wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from types import ModuleType
from typing import Any

from holdfast.errors import SettingsError, Unavailable
from holdfast.streams.kafka.kafka_url import KafkaUrl
from holdfast.streams.kafka.topics import TOPICS

SLICE_S = 0.5
CREATE_S = 5.0

# The library logs each failed connection, several times a second; the agent logs it once instead.
_log = logging.getLogger("holdfast.kafka")
_log.setLevel(logging.CRITICAL)


def library() -> ModuleType:
    try:
        import confluent_kafka  # noqa: PLC0415 - an optional extra
    except ImportError as exc:
        raise SettingsError("HOLDFAST_KAFKA_URL needs another package: pip install 'holdfast[kafka]'") from exc
    found: ModuleType = confluent_kafka
    return found


def configuration(url: KafkaUrl, **options: Any) -> dict[str, Any]:
    """Option names have underscores instead of dots."""
    own = {name.replace("_", "."): value for name, value in options.items()}
    return {"bootstrap.servers": url.servers, "logger": _log, "client.id": "holdfast"} | own | url.options


async def in_slices(call: Callable[[float], object], timeout_s: float, what: str) -> None:
    """Repeat a call that accepts a timeout and can safely be repeated after one, until it succeeds or time is up."""
    kafka, until = library(), monotonic() + timeout_s
    while True:
        try:
            await asyncio.to_thread(call, SLICE_S)
        except kafka.KafkaException as exc:
            error = exc.args[0]
            if not (error.retriable() or error.code() == kafka.KafkaError._TIMED_OUT) or monotonic() > until:  # noqa: SLF001
                raise Unavailable(f"Kafka: {what}: {error.str()}") from exc
        else:
            return


async def create_topics(url: KafkaUrl, names: Iterable[str] = TOPICS) -> None:
    """Create missing topics. An operator may have created them with other settings, and may deny us the right to."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an optional extra
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415 - as above

    admin = AdminClient(configuration(url))
    existing = (await asyncio.to_thread(partial(_metadata, admin))).topics
    missing = [NewTopic(name, url.partitions, url.replication) for name in names if name not in existing]
    if not missing:
        return
    kafka = library()
    created = admin.create_topics(missing, request_timeout=CREATE_S)
    for name, future in created.items():
        try:
            await asyncio.to_thread(future.result, CREATE_S)
        except kafka.KafkaException as exc:
            if exc.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise Unavailable(f"Kafka: topic {name} cannot be created: {exc.args[0].str()}") from exc
        except TimeoutError as exc:
            raise Unavailable(f"Kafka: topic {name} was not created in time") from exc


def _metadata(admin: Any) -> Any:
    kafka = library()
    try:
        return admin.list_topics(timeout=SLICE_S * 4)
    except kafka.KafkaException as exc:
        raise Unavailable(f"Kafka: no broker answers: {exc.args[0].str()}") from exc
