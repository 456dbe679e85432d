"""Data that the ledger needs to survive more faults and attacks."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Only additions: a server of the previous revision keeps running beside this one."""
    _money()
    _parked_entries()
    _places_left()
    _units_per_address()
    _create_incarnations()
    _heartbeats()
    _limits()
    _facts()
    _history()
    _compatibility()
    _pruning()


def _money() -> None:
    op.add_column("payments", sa.Column("customer", sa.String()))
    op.add_column("service_keys", sa.Column("created_by", _Id))
    op.add_column("service_keys", sa.Column("scopes_version", sa.BigInteger(), nullable=False, server_default="1"))


def _parked_entries() -> None:
    op.create_table(
        "parked_entries",
        sa.Column("entry_id", _Id, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False, server_default="parked"),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("history", sa.String(), nullable=False),
        sa.Column("entry", sa.String(), nullable=False),
        sa.CheckConstraint("state IN ('parked', 'dropped')", name="parked_entry_state_known"),
    )
    op.create_index("parked_entries_by_pool", "parked_entries", ["sku_id", "epoch"])


def _places_left() -> None:
    for name in ("left", "leaves", "unlisted"):
        op.add_column("rooms", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    for name in ("mode", "beacon", "beacon_value"):
        op.add_column("rooms", sa.Column(name, sa.String()))
    op.add_column("places", sa.Column("left_place", sa.BigInteger()))
    _partial_index("places_left", "places", ["sale_id", "left_place", "arrival"], "left_place IS NOT NULL")
    _partial_index("places_ended", "places", ["sale_id", "buyer_id"], "ended_at IS NOT NULL")


def _units_per_address() -> None:
    op.add_column("sales", sa.Column("units_per_address", sa.BigInteger()))
    op.create_table(
        "address_units",
        sa.Column("reservation_id", _Id, primary_key=True),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("owner_id", _Id, nullable=False),
        sa.Column("idempotency_key", _Id),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
    )
    op.create_index("address_units_by_address", "address_units", ["sale_id", "address"])


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _create_incarnations() -> None:
    op.create_table(
        "incarnations",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("incarnation", _Id, nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("after_seq", sa.BigInteger(), nullable=False),
        sa.Column("lost_seq", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("decided_by", sa.String()),
        sa.Column("report", sa.Text()),
    )


def _heartbeats() -> None:
    op.create_table(
        "heartbeats",
        sa.Column("process", _Id, primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("roles", sa.String(), nullable=False),
        sa.Column("padding", sa.LargeBinary()),
        sa.Column("revision", _Id, nullable=False, server_default=revision),
    )


def _limits() -> None:
    op.add_column("pools", sa.Column("limit_lowered_at", sa.BigInteger()))


def _facts() -> None:
    op.add_column("events", sa.Column("facts", sa.Text()))


def _history() -> None:
    op.create_table(
        "links",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("root", sa.String(), nullable=False),
        sa.Column("linked_at", sa.BigInteger(), nullable=False),
        sa.Column("peak", sa.String(), nullable=False),
    )
    op.create_table(
        "pruned_events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("pruned_by", sa.BigInteger(), nullable=False),
    )
    op.create_index("pruned_events_by_pruning", "pruned_events", ["pruned_by", "seq"])
    if op.get_context().dialect.name == "sqlite":
        _protect_on_sqlite()
    else:
        _protect_on_postgresql()


def _protect_on_sqlite() -> None:
    for name in ("events", "links", "pruned_events"):
        is_pruned = "WHEN NOT EXISTS (SELECT 1 FROM pruned_events WHERE seq = OLD.seq)" if name == "events" else ""
        for action, when in (("update", ""), ("delete", is_pruned)):
            op.execute(
                f"CREATE TRIGGER {name}_no_{action} BEFORE {action} ON {name} {when} "
                f"BEGIN SELECT RAISE(ABORT, '{name} is append-only'); END"
            )


def _protect_on_postgresql() -> None:
    op.execute("""
CREATE OR REPLACE FUNCTION holdfast_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'events' THEN
    IF EXISTS (SELECT 1 FROM pruned_events WHERE seq = OLD.seq) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' is append-only', ERRCODE = 'integrity_constraint_violation';
END $$
""")
    for name in ("events", "links", "pruned_events"):
        run = "EXECUTE FUNCTION holdfast_append_only()"
        op.execute(f"CREATE TRIGGER {name}_no_update_or_delete BEFORE UPDATE OR DELETE ON {name} FOR EACH ROW {run}")
        op.execute(f"CREATE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON {name} {run}")


def _compatibility() -> None:
    # Programs before this revision do not know about it: they refuse every newer database.
    compatibility = op.create_table("compatibility", sa.Column("min_reader", _Id, primary_key=True))
    op.bulk_insert(compatibility, [{"min_reader": revision}])


def _pruning() -> None:
    # Columns instead of an index over all events, which would block writers while it is built.
    op.add_column("pools", sa.Column("pruned_seq", sa.BigInteger()))
    op.add_column("rooms", sa.Column("pruned", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("rooms", sa.Column("unpruned_before", sa.BigInteger()))
