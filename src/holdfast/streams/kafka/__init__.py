"""Kafka: publishes events and settlement intents, and consumes intents. Needs `holdfast[kafka]`.

Bootstrap opens it; settings and the CLI may import its addresses.
"""
