"""Queries on messages to buyers: contacts, the log, and who is to be told of what."""
