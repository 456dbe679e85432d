"""Kafka: publishes events and settlement intents, and consumes intents. Needs `holdfast[kafka]`; bootstrap opens it."""
