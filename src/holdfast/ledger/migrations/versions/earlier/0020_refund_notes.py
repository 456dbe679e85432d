"""Why an operator refunds an order."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Only an addition: a server of the previous revision keeps running beside this one."""
    op.add_column("refunds", sa.Column("note", sa.String()))
