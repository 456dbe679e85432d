"""The oversell above which an operator decides, and a sale's spare units."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    for name, default in (("review_above_percent", "5"), ("buffer_units", "0")):
        op.add_column("sales", sa.Column(name, sa.BigInteger(), nullable=False, server_default=default))
