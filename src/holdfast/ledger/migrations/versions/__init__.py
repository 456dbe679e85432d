"""The tables, step by step, as Alembic revisions."""
