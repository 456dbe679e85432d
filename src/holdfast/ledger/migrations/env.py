"""Alembic's entry point: runs on the connection, and inside the transaction, that `ledger.upgrade` passes."""

from alembic import context

from holdfast.ledger.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
