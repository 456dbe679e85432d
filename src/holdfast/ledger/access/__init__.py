"""Queries on service keys and console sessions. Access, http and the CLI may import it."""
