"""The durable state, in SQLite or PostgreSQL: tables, queries and migrations.

Every layer above may import it. It imports only runtime, domain and errors.
"""
