"""The ledger's part of settlement: any number of settlements of one pool, in one transaction.

The model. Under the pool's lock each case is built from the ledger and advanced by its event
(`domain/sale/settling.py`). Then all ledger writes for all of them are done at once: payments, wallet entries, orders,
endings, refunds owed, the work itself. After that, at most one call to the provider or the gate is left per case
(`Record.pending`), for the interpreter. So no ledger effect is ever half done, and one commit serves everyone waiting
at the same pool.

Where the database is the gate, the reservation ends in this same transaction. Where Redis is, the ledger claims the
units, which makes them sold whatever the state of Redis, and the gate is notified afterwards.

On failure nothing is written. A worker that has lost its lease finds another fence on the row, and its event is not
applied.
"""

from collections.abc import Collection, Sequence

import structlog
from sqlalchemy import Connection

from holdfast.domain.sale.sale import PaymentKind, refund_id_of
from holdfast.domain.sale.settling_case import Effect, Event, Resumed
from holdfast.domain.stock.command import Command, Move, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import State
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.facts import row_facts
from holdfast.ledger.money.settle_batch import NOT_ASKED_FOR, REFUND, SETTLEMENT, Account, Lease, settle_queries
from holdfast.ledger.money.wallet import SALES
from holdfast.ledger.sales.quotes import prices_of
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.stock.batch import LockedPool, batch_queries
from holdfast.ledger.stock.bought import bought_units
from holdfast.ledger.stock.journal import claimed_units, insert_claims
from holdfast.ledger.tables.money import payments, refunds, settlements, wallet_entries
from holdfast.settlement.record import Record

log = structlog.get_logger()

_ENDED = (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
Posted = tuple[Lease, Event]


class SettlementBatch:
    """One transaction: the state that its cases share, and the writes they collect."""

    def __init__(self, locked: LockedPool, now: int, claimed: dict[str, int], *, notifies_gate: bool) -> None:
        self.locked = locked
        self.now = now
        self.notifies_gate = notifies_gate
        self.claimed = claimed
        pool = locked.pool
        self._units_left = 0 if pool is None else pool.total - pool.sold - sum(claimed.values())
        # The limit is checked here as well, because a gate that lost data may have granted more.
        self.limit = pool.rules.per_owner_limit if notifies_gate and pool is not None else None
        self.bought: dict[str, int] = {}
        self.balances: dict[Account, int] = {}
        self.changed_balances: dict[Account, int] = {}
        self.entries: list[tuple[object, ...]] = []
        self.refunds: list[tuple[object, ...]] = []
        self.sold: list[Record] = []
        self.returned: list[Record] = []
        self.reopened: list[Record] = []

    def advance(self, record: Record, event: Event) -> None:
        amount, quantity, buyer_id = record.case.amount, record.work["quantity"], record.work["buyer_id"]
        bought, had_claimed = self.bought.get(buyer_id, 0), record.has_claimed
        record.advance(
            event,
            self.now,
            # Where the database is the gate, the units of a settling reservation are held and cannot go to anyone else.
            has_units=not self.notifies_gate or quantity <= self._units_left,
            has_funds=not amount or self.balances.get(record.account, 0) >= amount,
            is_over_limit=not had_claimed and self._exceeds_limit(record, bought + quantity),
            notifies_gate=self.notifies_gate,
            is_unanswered=record.answer_until <= self.now,
            is_overdue=record.reservation is not None and record.reservation.expires_at <= self.now,
        )
        if record.has_claimed and not had_claimed:
            self.bought[buyer_id] = bought + quantity
        for effect in record.effects:
            match effect:
                case Effect.DEBIT_WALLET:
                    self._debit(record)
                case Effect.SELL:
                    self._units_left -= quantity
                    self.sold.append(record)
                case Effect.RETURN_UNITS:
                    self.returned.append(record)
                case Effect.REOPEN:
                    self.reopened.append(record)
                case Effect.OWE_REFUND:
                    self._owe_refund(record)
                case Effect.REPORT:
                    log.info(
                        "settlement_event_ignored",
                        reservation_id=record.reservation_id,
                        state=record.case.work.value,
                        event_type=type(event).__name__,
                    )

    def _exceeds_limit(self, record: Record, units: int) -> bool:
        is_older = record.reservation is not None and self.locked.may_exceed_limit(record.reservation)
        return self.limit is not None and units > self.limit and not is_older

    def _debit(self, record: Record) -> None:
        assert record.payment is not None
        account, amount, transfer = record.account, record.case.amount, record.payment["payment_key"]
        buyer_id, currency = account
        left = self.balances[account] - amount
        self.balances[account] = self.changed_balances[account] = left
        about = ("purchase", record.reservation_id)
        self.entries += [
            (transfer, f"buyer:{buyer_id}", currency, -amount, *about, left, self.now),
            (transfer, SALES, currency, amount, *about, None, self.now),
        ]

    def _owe_refund(self, record: Record) -> None:
        payment, cause = record.payment, record.case.refund_cause
        assert payment is not None
        if payment["amount"]:
            refund_id = refund_id_of(payment["payment_key"], cause)
            money = (payment["amount"], payment["currency"])
            values = (refund_id, payment["payment_key"], record.work["sku_id"], *money, cause, self.now, self.now)
            self.refunds.append(values)


class Posting:
    def __init__(self, database: Database, *, has_redis: bool, attempts_max: int) -> None:
        self._database = database
        self._pools = batch_queries(database.dialect_name)
        self._has_redis = has_redis
        self._attempts_max = attempts_max
        self.queries = settle_queries(database.dialect_name)

    def settle_due(self, connection: Connection, sku_id: str, limit: int) -> list[Record]:
        """Resume everything that is due at a pool."""
        locked = self._pools.lock(connection, sku_id, ())
        now = locked.now(connection, self._database)
        due = self.queries.due(connection, sku_id, now, limit)
        return self._resume(connection, locked, due, now)

    def settle_these(self, connection: Connection, sku_id: str, ids: Sequence[str]) -> list[Record]:
        """Like `settle_due`, for these settlements only."""
        locked = self._pools.lock(connection, sku_id, ())
        now = locked.now(connection, self._database)
        return self._resume(connection, locked, self.queries.due_of(connection, sku_id, ids, now), now)

    def _resume(self, connection: Connection, locked: LockedPool, due: Sequence[Lease], now: int) -> list[Record]:
        records = self._settle(connection, locked, [(lease, Resumed()) for lease in due], now) if due else []
        return [record for record in records if record is not None]

    def settle(self, connection: Connection, sku_id: str, posted: Sequence[Posted]) -> list[Record | None]:
        """Apply these events; None for cases whose lease is lost."""
        locked = self._pools.lock(connection, sku_id, ())
        return self._settle(connection, locked, posted, locked.now(connection, self._database))

    def _settle(
        self, connection: Connection, locked: LockedPool, posted: Sequence[Posted], now: int
    ) -> list[Record | None]:
        notifies_gate = self._has_redis and locked.position.epoch > 0
        claimed = claimed_units(connection, locked.sku_id) if notifies_gate else {}
        batch = SettlementBatch(locked, now, claimed, notifies_gate=notifies_gate)
        records = self._load(connection, [lease for lease, _ in posted], claimed)
        leased = [record for record in records if record is not None]
        if batch.limit is not None:
            buyers = {record.work["buyer_id"] for record in leased}
            batch.bought = bought_units(connection, locked.sku_id, buyers, with_payments=True)
        accounts = {record.account for record in leased if record.needs_balance}
        batch.balances = self.queries.lock_balances(connection, accounts)
        for record, (_, event) in zip(records, posted, strict=True):
            if record is not None:
                batch.advance(record, event)
        self._store(connection, batch, leased)
        return records

    def _load(self, connection: Connection, leases: Sequence[Lease], claimed: Collection[str]) -> list[Record | None]:
        ids = [lease.reservation_id for lease in leases]
        work = self.queries.lock_work(connection, ids)
        reservations = self.queries.reservations(connection, ids)
        replacements = {id_: row.successor_id for id_, row in work.items() if row.successor_id is not None}
        payments = self.queries.payments(connection, ids, {id_: r.attempts for id_, r in reservations.items()})
        known: Collection[str] = ()
        if replacements:
            known = self.queries.reservations(connection, list(replacements.values()))
            payments = self.queries.payments_of_replacements(connection, replacements) | payments
        returned = self.queries.returned(connection, payments.values())
        # A settling reservation without a captured payment has no order.
        may_have_order = [
            id_ for id_ in ids if id_ in payments or id_ not in reservations or reservations[id_].status in _ENDED
        ]
        orders = self.queries.orders(connection, may_have_order) if may_have_order else {}
        prices = prices_of(connection, ids)
        sales = {sale_id: find_sale(connection, sale_id) for sale_id in {row.sale_id for row in work.values()}}

        def record(id_: str) -> Record:
            row = work[id_]
            return Record(
                row,
                reservations.get(id_),
                payments.get(id_, []),
                orders.get(id_),
                sales[row.sale_id],
                prices.get(id_),
                returned=returned,
                has_replacement=row.successor_id in known,
                is_claimed=id_ in claimed,
                attempts_max=self._attempts_max,
            )

        fences = {id_: row.fence for id_, row in work.items()}
        return [
            record(lease.reservation_id) if fences.get(lease.reservation_id) == lease.fence else None
            for lease in leases
        ]

    def _store(self, connection: Connection, batch: SettlementBatch, records: Sequence[Record]) -> None:
        queries = self.queries
        queries.store_payments(connection, [r.payment for r in records if r.is_payment_changed and r.payment])
        queries.store_work(connection, [r.work for r in records if r.is_work_changed])
        queries.store_balances(connection, batch.changed_balances, batch.now)
        if batch.entries:
            queries.insert_entries(connection, batch.entries)
        if batch.refunds:
            queries.insert_refunds(connection, batch.refunds)
        fresh = self._order(connection, batch)
        told = {r.reservation_id: _facts(r, batch) for r in records if r.has_ended and r.reservation_id not in fresh}
        declined = {r.reservation_id: _reservation(r) for r in records if r.is_declined and r.reservation is not None}
        self._pools.sales.settled(connection, batch.locked.sku_id, batch.now, told, declined)
        if batch.notifies_gate:
            insert_claims(connection, [_reservation(record) for record in batch.sold], batch.now)
        elif batch.sold or batch.returned or batch.reopened:
            self._end(connection, batch)

    def _end(self, connection: Connection, batch: SettlementBatch) -> None:
        """Decide as the gate would, from rows already read under the pool's lock."""
        ended = [*batch.sold, *batch.returned, *batch.reopened]
        moves: list[Command] = [Move(Transition.CONFIRM, r.reservation_id) for r in batch.sold]
        moves += [Move(Transition.FAIL, r.reservation_id) for r in batch.returned]
        moves += [Move(Transition.REOPEN, r.reservation_id, attempt=r.case.payment_attempt) for r in batch.reopened]
        known = {record.reservation_id: _reservation(record) for record in ended}
        decision = decide(State(batch.locked.sku_id, batch.locked.pool, known), moves, batch.now)
        assert all(v.outcome is Outcome.MOVED for v in decision.verdicts), "a settling reservation can always end"
        self._pools.store_stock(connection, batch.locked, decision.changes, batch.now)
        self._pools.sales.cancel(connection, decision.changes.moved, batch.now)

    def _order(self, connection: Connection, batch: SettlementBatch) -> set[str]:
        """The reservations with a new order, whose events have the facts of the payment."""
        groups: dict[tuple[str, PaymentKind], list[Reservation]] = {}
        fresh: set[str] = set()
        paid = {record.reservation_id: _facts(record, batch) for record in batch.sold}
        for record in batch.sold:
            assert record.sale is not None
            groups.setdefault((record.sale.sale_id, record.sale.payment), []).append(_reservation(record))
        for (sale_id, payment), reservations in groups.items():
            fresh |= self._pools.sales.order(connection, sale_id, reservations, payment, batch.now, paid)
        return fresh


def _facts(record: Record, batch: SettlementBatch) -> dict[str, list[dict[str, object]]]:
    """Its payment rows, as written."""
    written = {
        settlements: [{name: record.work[name] for name in SETTLEMENT}],
        payments: [record.payment] if record.payment else [],
        refunds: [NOT_ASKED_FOR | dict(zip(REFUND, row, strict=True)) for row in batch.refunds if record.owns(row[1])],
        wallet_entries: [
            dict(zip(wallet_entries.c.keys(), row, strict=True)) for row in batch.entries if record.owns(row[0])
        ],
    }
    return {table.name: [row_facts(table, row) for row in rows] for table, rows in written.items() if rows}


def _reservation(record: Record) -> Reservation:
    assert record.reservation is not None
    return record.reservation
