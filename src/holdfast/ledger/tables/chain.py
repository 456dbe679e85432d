"""The chain over the events, and the triggers that keep history append-only.

The triggers stop mistakes and defects. Someone who owns the database can remove them; that is what the chain and its
checkpoints are for (docs/PROOF.md).
"""

from sqlalchemy import DDL, BigInteger, Column, Index, Integer, String, Table, event

from holdfast.ledger.tables.access import operator_actions
from holdfast.ledger.tables.columns import Millis, Sequence, metadata
from holdfast.ledger.tables.stock import events

# Each link covers the events after the previous one, up to `last_seq` (`ledger/chain/links.py`).
links = Table(
    "links",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("events", Integer, nullable=False),
    # The root of the Merkle tree over its events.
    Column("root", String, nullable=False),
    Column("linked_at", Millis, nullable=False),
    # The largest complete subtree over all links that ends here.
    Column("peak", String, nullable=False),
)

# The hashes of events that were pruned. An event can be deleted only if its hash is here.
pruned_events = Table(
    "pruned_events",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=False),
    Column("hash", String, nullable=False),
    # The `pool.pruned` or `room.pruned` event that replaces it.
    Column("pruned_by", BigInteger, nullable=False),
    Index("pruned_events_by_pruning", "pruned_by", "seq"),
)

# Events in which a buyer was replaced by a pseudonym. Their original hashes are in `pruned_events`.
redacted_events = Table(
    "redacted_events",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=False),
    # The `buyer.erased` event that records it. An event of several buyers may be changed once for each of them.
    Column("erased_by", BigInteger, primary_key=True, autoincrement=False),
    # Hash of the event after redaction.
    Column("hash", String, nullable=False),
    Index("redacted_events_by_erasure", "erased_by", "seq"),
)

APPEND_ONLY = (events, links, pruned_events, redacted_events, operator_actions)

_POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION holdfast_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'events' THEN
    IF EXISTS (SELECT 1 FROM pruned_events WHERE seq = OLD.seq) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' is append-only', ERRCODE = 'integrity_constraint_violation';
END $$
"""


def protection(dialect_name: str) -> list[str]:
    """The statements that create the triggers."""
    names = [table.name for table in APPEND_ONLY]
    if dialect_name == "sqlite":
        unless = "WHEN NOT EXISTS (SELECT 1 FROM pruned_events WHERE seq = OLD.seq)"
        return [
            f"CREATE TRIGGER {name}_no_{action} BEFORE {action} ON {name} "
            f"{unless if (name, action) == ('events', 'delete') else ''} "
            f"BEGIN SELECT RAISE(ABORT, '{name} is append-only'); END"
            for name in names
            for action in ("update", "delete")
        ]
    how = {"update_or_delete": "BEFORE UPDATE OR DELETE ON {} FOR EACH ROW", "truncate": "BEFORE TRUNCATE ON {}"}
    return [_POSTGRES_FUNCTION] + [
        f"CREATE TRIGGER {name}_no_{action} {when.format(name)} EXECUTE FUNCTION holdfast_append_only()"
        for name in names
        for action, when in how.items()
    ]


for _dialect in ("sqlite", "postgresql"):
    for _statement in protection(_dialect):
        _ddl = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(metadata, "after_create", _ddl.execute_if(dialect=_dialect))
