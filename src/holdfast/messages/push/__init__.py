"""Web Push: browser notifications for buyers who asked for them. Every layer above messages may import it."""
