"""Messages to buyers who asked for them: by mail, once per event. Bootstrap, http and the CLI may import it."""
