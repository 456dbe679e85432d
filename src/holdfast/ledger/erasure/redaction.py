"""The changes to an event or a row when a buyer is erased. No I/O."""

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.domain.stock.shards import mark_of
from holdfast.ledger.engine.facts import encode_facts

Values = dict[str, Any]

_decode = msgspec.json.Decoder(dict[str, Any]).decode
ACCOUNT = "buyer:"
# Replaces the fingerprint of a request, which is no longer compared: its key is deleted.
ERASED = "erased"
# Columns with personal data in the rows of a buyer. Nothing is computed from them.
EMPTIED: Mapping[str, tuple[str, ...]] = {
    "orders": ("tracking", "fulfil_key"),
    "payments": ("method", "customer"),
    "refunds": ("note",),
    "drop_units": ("idempotency_key",),
}
_IDS = {"orders": "order_id", "payments": "payment_key", "refunds": "refund_id"}


def new_pseudonym(buyer_id: str) -> str:
    """Random, but in the same shard of every pool."""
    while True:
        pseudonym = f"erased_{secrets.token_hex(10)}"
        if mark_of(pseudonym) == mark_of(buyer_id):
            return pseudonym


class Redaction:
    def __init__(self, buyer_id: str, pseudonym: str) -> None:
        self.buyer_id, self.pseudonym = buyer_id, pseudonym
        # The primary keys of their orders, payments and refunds, which do not name them in every event.
        self.ids: dict[str, set[str]] = {table: set() for table in _IDS}
        # IDs of wallet credits, which are computed from the buyer's ID.
        self.credits = set[str]()
        self._new: dict[tuple[str, str], str] = {}

    def replacement(self, kind: str, old: str) -> str:
        """A random value that replaces an idempotency key, ticket or credit; always the same for the same original."""
        prefix = {"key": f"{self.pseudonym}.", "credit": "crd_", "ticket": ""}[kind]
        return self._new.setdefault((kind, old), prefix + secrets.token_hex(16))

    def event(self, event: Mapping[str, Any]) -> Values | None:
        """The redacted event; None if it does not name the buyer."""
        facts = None if event["facts"] is None else _decode(event["facts"])
        changed = {
            "sku_id": self._named(event["sku_id"]) if event["sku_id"].startswith(ACCOUNT) else event["sku_id"],
            "subject": self._credit(event["subject"]),
        }
        new_facts = None if facts is None else self.facts(facts)
        if new_facts != facts and new_facts is not None:
            changed["facts"] = encode_facts(new_facts)
        left = {**event, **changed}
        return left if left != event else None

    def facts(self, facts: Mapping[str, Any]) -> Values:
        new = self.row("", facts)
        if "joined" in facts:
            new["joined"] = self._joined(facts["joined"])
        for name, rows in facts.items():
            if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
                new[name] = [self.row(name, row) for row in rows]
        if "removed" in facts:
            new["removed"] = {name: [self.row(name, row) for row in rows] for name, rows in facts["removed"].items()}
        return new

    def row(self, table: str, row: Mapping[str, Any]) -> Values:
        """A row of a table, with all or some of its columns. Without a table, the facts of a new reservation."""
        new = dict(row)
        for name in ("buyer_id", "owner_id"):
            if row.get(name) == self.buyer_id:
                new[name] = self.pseudonym
                if "key" in row:
                    new |= {"key": self.replacement("key", row["key"]), "fingerprint": ERASED}
        if "account" in row:
            new["account"] = self._named(row["account"])
        if "transfer_id" in row:
            new["transfer_id"] = self._credit(row["transfer_id"])
        if table in _IDS and row.get(_IDS[table]) in self.ids[table]:
            new |= {name: None for name in EMPTIED[table] if row.get(name) is not None}
        return new

    def _joined(self, joined: list[list[Any]]) -> list[list[Any]]:
        buyers, tickets, *stamps = joined
        is_theirs = [buyer == self.buyer_id for buyer in buyers]
        new_tickets = [
            self.replacement("ticket", ticket) if own else ticket
            for own, ticket in zip(is_theirs, tickets, strict=True)
        ]
        return [
            [self.pseudonym if own else buyer for own, buyer in zip(is_theirs, buyers, strict=True)],
            new_tickets,
            *stamps,
        ]

    def _named(self, account: str) -> str:
        return ACCOUNT + self.pseudonym if account == ACCOUNT + self.buyer_id else account

    def _credit(self, transfer_id: str | None) -> str | None:
        return self.replacement("credit", transfer_id) if transfer_id in self.credits else transfer_id
