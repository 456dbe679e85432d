"""Webhooks: turns events into deliveries, sends and retries them. Bootstrap, http and the CLI may import it."""
