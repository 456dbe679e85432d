"""The topics that Holdfast publishes to (docs/STREAMS.md)."""

from holdfast.ledger.events.dead_letters import DEAD_LETTERS
from holdfast.ledger.events.stream_messages import EVENTS, INTENTS

TOPICS = (EVENTS, INTENTS, DEAD_LETTERS)
