"""Webhooks: turns events into deliveries, sends and retries them. Every layer above may import it."""
