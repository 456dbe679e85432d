"""An order exists from the moment its payment begins, and says when it was paid and fulfilled."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_STATUSES = "status IN ('pending', 'confirmed', 'fulfilled', 'refunded', 'cancelled')"
_COPIED = (
    "order_id", "reservation_id", "sale_id", "sku_id", "buyer_id", "quantity", "amount", "currency", "payment",
    "status", "refunded_amount", "created_at", "units_to_source",
)  # fmt: skip


def upgrade() -> None:
    # Earlier programs do not say that what they sold was paid.
    op.execute(sa.text("UPDATE compatibility SET min_reader = :least").bindparams(least=revision))
    if op.get_context().dialect.name == "sqlite":
        _rebuild_orders()
        return
    op.add_column("orders", sa.Column("updated_at", sa.BigInteger()))
    op.add_column("orders", sa.Column("confirmed_at", sa.BigInteger()))
    op.add_column("orders", sa.Column("tracking", sa.String()))
    op.execute("UPDATE orders SET updated_at = created_at, confirmed_at = created_at")
    op.alter_column("orders", "updated_at", nullable=False)
    op.drop_constraint("order_status_known", "orders", type_="check")
    op.create_check_constraint("order_status_known", "orders", _STATUSES)


def _rebuild_orders() -> None:
    """SQLite cannot change a constraint of a table."""
    op.create_table(
        "orders_new",
        sa.Column("order_id", _Id, primary_key=True),
        sa.Column("reservation_id", _Id, nullable=False, unique=True),
        *(sa.Column(name, _Id, nullable=False) for name in ("sale_id", "sku_id", "buyer_id")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("quantity", "amount")),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("currency", "payment", "status")),
        sa.Column("refunded_amount", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("units_to_source", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_at", sa.BigInteger()),
        sa.Column("tracking", sa.String()),
        sa.CheckConstraint(_STATUSES, name="order_status_known"),
        sa.CheckConstraint("refunded_amount >= 0 AND refunded_amount <= amount", name="refunded_within_amount"),
    )
    columns = ", ".join(_COPIED)
    op.execute(
        f"INSERT INTO orders_new ({columns}, updated_at, confirmed_at) "  # noqa: S608 - our own names
        f"SELECT {columns}, created_at, created_at FROM orders"
    )
    op.drop_table("orders")
    op.rename_table("orders_new", "orders")
    op.create_index("orders_by_buyer", "orders", ["buyer_id", "order_id"])
    op.create_index("orders_by_sale", "orders", ["sale_id", "order_id"])
    op.create_index("orders_to_source", "orders", ["sale_id"], sqlite_where=sa.text("units_to_source > 0"))
