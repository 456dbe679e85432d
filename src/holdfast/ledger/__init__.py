"""The durable state, in SQLite or PostgreSQL: tables, queries and migrations.

Every package above it may import it. It imports only runtime, domain and errors.
"""
