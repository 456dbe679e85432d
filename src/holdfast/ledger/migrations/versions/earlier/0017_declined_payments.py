"""A declined payment may be followed by another one for the same reservation."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_STATES = "state IN ('new', 'attempted', 'authorised', 'claimed', 'captured', 'declined', 'voided')"
_UNDECIDED = "state IN ('attempted', 'authorised', 'claimed')"


def upgrade() -> None:
    attempts = sa.Column("payment_attempts_max", sa.BigInteger(), nullable=False, server_default="3")
    op.add_column("sales", attempts)
    op.add_column("sales", sa.Column("after_attempts", sa.String(), nullable=False, server_default="cancel"))
    if op.get_context().dialect.name == "sqlite":
        _rebuild_payments()
    else:
        op.add_column("payments", sa.Column("attempt", sa.BigInteger(), nullable=False, server_default="1"))
        op.drop_constraint("payments_reservation_id_key", "payments", type_="unique")
    op.create_index("payments_by_reservation", "payments", ["reservation_id"])


def _rebuild_payments() -> None:
    """SQLite cannot drop a constraint of a table."""
    names = ("sale_id", "buyer_id", "provider", "method", "amount", "currency", "state", "reference", "reason")
    copied = ("payment_key", "reservation_id", *names, "created_at", "updated_at", "customer")
    op.create_table(
        "payments_new",
        sa.Column("payment_key", _Id, primary_key=True),
        *(sa.Column(name, _Id, nullable=False) for name in ("reservation_id", "sale_id", "buyer_id")),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("method", sa.String()),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("currency", "state")),
        *(sa.Column(name, sa.String()) for name in ("reference", "reason")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("created_at", "updated_at")),
        sa.Column("customer", sa.String()),
        sa.Column("attempt", sa.BigInteger(), nullable=False, server_default="1"),
        sa.CheckConstraint(_STATES, name="payment_state_known"),
    )
    columns = ", ".join(copied)
    op.execute(f"INSERT INTO payments_new ({columns}) SELECT {columns} FROM payments")  # noqa: S608 - our own names
    op.drop_table("payments")
    op.rename_table("payments_new", "payments")
    for name, where in (("payments_captured", "state = 'captured'"), ("payments_set_aside", _UNDECIDED)):
        op.create_index(name, "payments", ["updated_at"], sqlite_where=sa.text(where))
