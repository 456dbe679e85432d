"""The schema as Alembic revisions. Alembic loads them; nothing may import them."""
