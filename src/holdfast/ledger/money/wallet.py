"""Buyers' balances, in double entry: each transfer debits one account and credits another in one transaction."""

from hashlib import sha256
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.facts import record
from holdfast.ledger.tables.money import wallet_accounts, wallet_entries

# The accounts that service keys add money from, and that payments go to.
FUNDING = "house:funding"
SALES = "house:sales"
CREDITED = "wallet.credited"

Entries = list[dict[str, object]]


class Balance(Struct, frozen=True):
    buyer_id: str
    balance: int
    currency: str


class KeyReused(Exception):
    """The same idempotency key was used for another amount or currency."""


class Wallet:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def credit(self, buyer_id: str, amount: int, currency: str, key: str) -> Balance:
        """Once per buyer and key: repeats return the first result."""
        transfer_id = _transfer_id(buyer_id, key, "\n" if "/" in buyer_id else "/")

        def work(connection: Connection) -> Balance:
            now = self._database.now_ms(connection)
            lock_account(connection, buyer_id, currency, now)
            # Earlier versions joined all of them with a slash.
            first = _entry(connection, [transfer_id, _transfer_id(buyer_id, key, "/")], buyer_id)
            if first is not None:
                if (first.amount, first.currency) != (amount, currency):
                    raise KeyReused
                return Balance(buyer_id, first.balance, currency)
            entries = add(connection, transfer_id, FUNDING, buyer_id, amount, currency, "credit", now)
            record(connection, f"buyer:{buyer_id}", CREDITED, now, {"wallet_entries": entries}, subject=transfer_id)
            balance = balance_after(entries)
            return Balance(buyer_id, balance, currency)

        try:
            return await self._database.write(work)
        except IntegrityError:
            # Two concurrent requests under the same key, in two currencies: the second now finds the first.
            return await self._database.write(work)

    async def balances(self, buyer_id: str) -> list[Balance]:
        query = select(wallet_accounts).where(wallet_accounts.c.buyer_id == buyer_id).order_by("currency")
        found = await self._database.read(lambda c: list(c.execute(query)))
        return [Balance(row.buyer_id, row.balance, row.currency) for row in found]


def lock_account(connection: Connection, buyer_id: str, currency: str, now: int) -> None:
    """Create the account if needed, and lock it until the transaction ends."""
    dialect_insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    account = {"buyer_id": buyer_id, "currency": currency, "balance": 0, "updated_at": now}
    statement = dialect_insert(wallet_accounts).values(**account)
    # An update that changes nothing: ON CONFLICT DO NOTHING would not lock the row.
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["buyer_id", "currency"], set_={"balance": wallet_accounts.c.balance}
        )
    )


def _transfer_id(buyer_id: str, key: str, separator: str) -> str:
    """The separator must not occur in a buyer's ID, or two buyers could get the same one. No ID contains a line
    break."""
    return f"crd_{sha256(f'{buyer_id}{separator}{key}'.encode()).hexdigest()[:32]}"


def _entry(connection: Connection, transfer_ids: list[str], buyer_id: str) -> Row[Any] | None:
    is_theirs = wallet_entries.c.account == f"buyer:{buyer_id}"
    return connection.execute(
        select(wallet_entries).where(wallet_entries.c.transfer_id.in_(transfer_ids), is_theirs)
    ).one_or_none()


def add(
    connection: Connection,
    transfer_id: str,
    source: str,
    buyer_id: str,
    amount: int,
    currency: str,
    kind: str,
    now: int,
    reservation_id: str | None = None,
) -> Entries:
    """Move money to a buyer whose account is locked. Returns both entries, the buyer's first."""
    balance: int = connection.execute(
        update(wallet_accounts)
        .where(wallet_accounts.c.buyer_id == buyer_id, wallet_accounts.c.currency == currency)
        .values(balance=wallet_accounts.c.balance + amount, updated_at=now)
        .returning(wallet_accounts.c.balance)
    ).scalar_one()
    common: dict[str, object] = {
        "transfer_id": transfer_id,
        "currency": currency,
        "kind": kind,
        "reservation_id": reservation_id,
        "at": now,
    }
    theirs = common | {"account": f"buyer:{buyer_id}", "amount": amount, "balance": balance}
    ours = common | {"account": source, "amount": -amount, "balance": None}
    connection.execute(insert(wallet_entries), [theirs, ours])
    return [theirs, ours]


def balance_after(entries: Entries) -> int:
    balance = entries[0]["balance"]
    assert isinstance(balance, int)
    return balance
