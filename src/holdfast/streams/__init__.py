"""Live events for clients that stay connected. Only bootstrap may import it."""
