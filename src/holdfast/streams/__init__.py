"""Live events for connected clients, Kafka, and the click stream. Every layer above may import it."""
