"""Messages to buyers: contacts, and the log."""
