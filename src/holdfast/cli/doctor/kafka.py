"""Kafka: whether a broker answers, and whether the topics are there."""

import asyncio
import time
from typing import Any

from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.errors import SettingsError
from holdfast.settings import Settings
from holdfast.streams.kafka.client import configuration, library
from holdfast.streams.kafka.kafka_url import parse_kafka_url
from holdfast.streams.kafka.topics import TOPICS

TIMEOUT_S = 5.0


async def examine_kafka(settings: Settings) -> list[Finding]:
    url = parse_kafka_url(settings.kafka_url)
    try:
        kafka = library()
    except SettingsError as exc:
        return [fail("kafka", str(exc), "pip install 'holdfast[kafka]'")]
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an optional extra

    started = time.perf_counter()
    try:
        found = await asyncio.to_thread(AdminClient(configuration(url)).list_topics, timeout=TIMEOUT_S)
    except kafka.KafkaException as exc:
        # Nothing that sells waits for it.
        problem = f"no broker answers: {exc.args[0].str()}; sales continue, and events wait in the ledger"
        return [warn("kafka", problem, "start Kafka, or correct HOLDFAST_KAFKA_URL")]
    took_ms = (time.perf_counter() - started) * 1000
    return [ok("kafka", f"{_count(len(found.brokers), 'broker')}, answers in {took_ms:.0f} ms"), _check_topics(found)]


def _check_topics(found: Any) -> Finding:
    missing = [name for name in TOPICS if name not in found.topics]
    if missing:
        return warn("kafka topics", f"missing: {', '.join(missing)}", "a worker creates them when it starts, or do so")
    partitions = {name: len(found.topics[name].partitions) for name in TOPICS}
    return ok("kafka topics", ", ".join(f"{name} with {_count(n, 'partition')}" for name, n in partitions.items()))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
