"""Endpoints for messages to buyers: contacts and the log. Only http.server may import it."""
