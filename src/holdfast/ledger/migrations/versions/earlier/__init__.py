"""The first revisions. Alembic loads them; nothing may import them."""
