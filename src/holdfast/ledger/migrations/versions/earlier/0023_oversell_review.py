"""From how much oversell on a person decides, and how many spare units a sale has."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Only additions: a server of the revision before keeps running beside this one."""
    for name, default in (("review_above_percent", "5"), ("buffer_units", "0")):
        op.add_column("sales", sa.Column(name, sa.BigInteger(), nullable=False, server_default=default))
