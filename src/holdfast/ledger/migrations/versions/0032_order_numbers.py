"""Order numbers are unique and can be searched; an order keeps the key that it was fulfilled with."""

import sqlalchemy as sa
from alembic import op

from holdfast.domain.sale.sale import order_number_of

revision = "0032"
down_revision = "0031"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_PAGE = 1_000


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    op.add_column("orders", sa.Column("number", _Id))
    op.add_column("orders", sa.Column("fulfil_key", sa.String()))
    _number_orders(op.get_bind())
    op.create_index("orders_by_number", "orders", ["number"], unique=True)


def _number_orders(connection: sa.Connection) -> None:
    page = sa.text("SELECT order_id, reservation_id FROM orders WHERE order_id > :after ORDER BY order_id LIMIT :limit")
    change = sa.text("UPDATE orders SET number = :number WHERE order_id = :order_id")
    after = ""
    while rows := connection.execute(page, {"after": after, "limit": _PAGE}).all():
        connection.execute(change, [{"order_id": row[0], "number": order_number_of(row[1])} for row in rows])
        after = rows[-1][0]
