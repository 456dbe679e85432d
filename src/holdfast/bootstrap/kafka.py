"""Opens what works with Kafka: the relay of events, and the consumer of settlement intents."""

from typing import Any

from sqlalchemy import Connection

from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.dead_letters import park_message
from holdfast.ledger.events.event_facts import FindTraces
from holdfast.ledger.mark.mark import read_incarnations
from holdfast.runtime.agent import Agent
from holdfast.settings import Settings
from holdfast.settlement.purchases import Purchases
from holdfast.streams.kafka.intents import GROUP, IntentConsumer
from holdfast.streams.kafka.kafka_url import parse_kafka_url
from holdfast.streams.kafka.publisher import Publisher
from holdfast.streams.kafka.relay import KafkaRelay


def kafka_agents(
    settings: Settings, database: Database, purchases: Purchases, find_traces: FindTraces | None = None
) -> list[Agent[Any]]:
    if not settings.has_kafka:
        return []
    url = parse_kafka_url(settings.kafka_url)
    agents: list[Agent[Any]] = [KafkaRelay(database, Publisher(url), find_traces).agent()]
    if settings.has_intents:

        async def group() -> str:
            return await database.read(_group)

        async def park(message_id: str, reason: str, body: bytes) -> None:
            await database.write(lambda c: park_message(c, message_id, reason, body, database.now_ms(c)))

        agents.append(IntentConsumer(url, purchases.settle, park, group).agent())
    return agents


def _group(connection: Connection) -> str:
    """One per ledger: of two that share a cluster, neither must take the intents of the other."""
    history = read_incarnations(connection)
    return f"{GROUP}-{history[0].incarnation}" if history else GROUP
