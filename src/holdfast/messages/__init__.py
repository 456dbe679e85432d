"""Messages to buyers who asked for them: by mail or web push, once per event. Every layer above may import it."""
