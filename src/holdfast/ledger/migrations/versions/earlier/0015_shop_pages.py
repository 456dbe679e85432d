"""Where a sale's buyers pay at the shop, and how its page looks."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("sales", sa.Column("checkout_url", sa.String()))
    op.add_column("sales", sa.Column("brand", sa.Text()))
    op.add_column("sales", sa.Column("locale", sa.String()))
