"""Compares the server's ledger with what each simulated buyer saw. Pure: records and ledger in, findings out.

Each check names an invariant and counts violations, as `holdfast verify` does; but `verify` reads only the ledger and
cannot know which responses clients received.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.lab.rush.buyers.bots import must_be_refused
from holdfast.lab.rush.buyers.record import BuyerRecord, Ending, Grant
from holdfast.lab.rush.checks.finding import Finding, finding
from holdfast.lab.rush.checks.free_units import check_free_units
from holdfast.lab.rush.checks.queue_order import check_queue_order
from holdfast.lab.rush.server.ledger_snapshot import LedgerSnapshot
from holdfast.lab.rush.server.sale_admin import OrderRow, ReservationRow
from holdfast.lab.rush.server.stock_monitor import Sample

# Statuses that may follow the last status a buyer saw.
_MAY_BECOME = {
    "active": {"active", "settling", "confirmed", "failed", "cancelled", "expired"},
    # A declined payment leaves a hold.
    "settling": {"active", "settling", "confirmed", "failed", "cancelled", "expired"},
    "confirmed": {"confirmed"},
    "failed": {"failed"},
    "cancelled": {"cancelled"},
    "expired": {"expired"},
}


_LEFT_WITHOUT_ANSWER = frozenset({Ending.GAVE_UP, Ending.CUT_OFF})


class Evidence:
    """All evidence at the end, indexed once for all checks."""

    def __init__(
        self,
        records: Sequence[BuyerRecord],
        ledger: LedgerSnapshot,
        samples: Sequence[Sample],
        *,
        users: int,
        is_exclusive: bool,
    ) -> None:
        self.records, self.ledger, self.samples, self.is_exclusive = records, ledger, samples, is_exclusive
        self.users = users
        self.by_buyer = {record.buyer_id: record for record in records}
        self.reservations = {row.reservation_id: row for sale in ledger.sales for row in sale.reservations}
        self.orders: dict[str, list[OrderRow]] = defaultdict(list)
        for sale in ledger.sales:
            for order in sale.orders:
                self.orders[order.reservation_id].append(order)

    def grants(self) -> Iterator[tuple[BuyerRecord, Grant]]:
        return ((record, grant) for record in self.records for grant in record.grants)

    def reported(self, invariant: str) -> Iterator[str]:
        for record in self.records:
            yield from (f"{record.buyer_id}: {what}" for name, what in record.violations if name == invariant)


Check = Callable[[Evidence], Iterable[str]]


def _all_accounted(evidence: Evidence) -> Iterator[str]:
    times = Counter(record.number for record in evidence.records)
    yield from (
        f"buyer {number} was simulated, and then forgotten" for number in range(evidence.users) if not times[number]
    )
    yield from (f"buyer {number} was counted {count} times" for number, count in times.items() if count > 1)
    yield from (f"buyer {number} is none of the {evidence.users}" for number in times if number >= evidence.users)
    bought = {grant.reservation_id for _, grant in evidence.grants() if grant.status == "confirmed"}
    for row in evidence.reservations.values():
        owner = evidence.by_buyer.get(row.owner_id)
        if owner is None or row.status != "confirmed" or row.reservation_id in bought:
            continue
        if not owner.outcome_unknown and owner.ending not in _LEFT_WITHOUT_ANSWER:
            yield f"{row.reservation_id} was sold to {row.owner_id}, who counts as {owner.ending}"


def _yes_kept(evidence: Evidence) -> Iterator[str]:
    yield from evidence.reported("yes_kept")
    yield from evidence.reported("tickets_honoured")
    for record, grant in evidence.grants():
        row = evidence.reservations.get(grant.reservation_id)
        if row is None:
            yield f"{record.buyer_id} was granted {grant.reservation_id}, which is not in the ledger"
        elif (row.owner_id, row.quantity) != (record.buyer_id, grant.quantity):
            reported = f"{grant.quantity} for {record.buyer_id}"
            yield f"{grant.reservation_id} is {row.quantity} for {row.owner_id}, but was reported as {reported}"
        elif row.status not in _MAY_BECOME.get(grant.status, {row.status}):
            yield f"{grant.reservation_id} was reported as {grant.status}, but is {row.status}"
        elif row.status == "confirmed" and not evidence.orders.get(grant.reservation_id):
            yield f"{grant.reservation_id} is sold, but has no order"


def _charged_once(evidence: Evidence) -> Iterator[str]:
    for reservation_id, orders in evidence.orders.items():
        if len(orders) > 1:
            yield f"{reservation_id} has {len(orders)} orders"
    charged: Counter[str] = Counter()
    for payment in evidence.ledger.payments or []:
        charged[payment.charge.reservation_id] += payment.captures
        if payment.captures > 1:
            yield f"payment {payment.key} was captured {payment.captures} times"
    yield from (f"{name} was charged {times} times" for name, times in charged.items() if times > 1)
    spent: Counter[str] = Counter()
    for order in _all_orders(evidence):
        spent[order.buyer_id] += order.amount - order.refunded_amount
    for buyer_id, balance in evidence.ledger.balances.items():
        credited = evidence.by_buyer[buyer_id].credited
        if credited - balance != spent[buyer_id]:
            yield f"{buyer_id} started with {credited}, has {balance}, and orders for {spent[buyer_id]}"


def _charges_end(evidence: Evidence) -> Iterator[str]:
    """Per reservation: a second card makes a second payment, but only one of them may keep money."""
    kept: Counter[str] = Counter()
    for payment in evidence.ledger.payments or []:
        kept[payment.charge.reservation_id] += payment.captured - payment.refunded
    for reservation_id, amount in kept.items():
        ordered = sum(order.amount - order.refunded_amount for order in evidence.orders.get(reservation_id, []))
        if amount != ordered:
            yield f"{reservation_id}: {amount} kept, orders for {ordered}"


def _limits_kept(evidence: Evidence) -> Iterator[str]:
    yield from evidence.reported("limits_kept")
    for sale in evidence.ledger.sales:
        limit = sale.offer.per_buyer_limit
        bought: Counter[str] = Counter()
        for row in sale.reservations:
            bought[row.owner_id] += row.quantity if row.status in ("confirmed", "settling", "active") else 0
        if limit is not None:
            yield from (
                f"{who} has {units} of {sale.offer.sku_id}, the limit is {limit}"
                for who, units in bought.items()
                if units > limit
            )


def _not_oversold(evidence: Evidence) -> Iterator[str]:
    for sale in evidence.ledger.sales:
        total = sale.stock.total_units
        claims = {"pool says": sale.stock.sold, "reservations say": _sold(sale.reservations)}
        if sale.offer.payment != "external" or sale.orders:
            claims["orders say"] = sum(order.quantity for order in sale.orders if order.status == "confirmed")
        for who, sold in claims.items():
            if sold > total:
                yield f"{sale.offer.sku_id}: the {who} {sold} units are sold of {total}"
        if len(set(claims.values())) > 1:
            counts = ", ".join(f"the {who} {sold}" for who, sold in claims.items())
            yield f"{sale.offer.sku_id}: the counts of sold units differ: {counts}"


def _all_ended(evidence: Evidence) -> Iterator[str]:
    for sale in evidence.ledger.sales:
        stock = sale.stock
        if stock.available + stock.held + stock.sold != stock.total_units or stock.available < 0:
            yield f"{sale.offer.sku_id}: {stock.available} + {stock.held} + {stock.sold} is not {stock.total_units}"
        if evidence.is_exclusive and stock.held:
            yield f"{sale.offer.sku_id}: {stock.held} units are still held"
        for row in sale.reservations:
            if row.status in ("active", "settling") and row.owner_id in evidence.by_buyer:
                yield f"{row.reservation_id} is still {row.status}"


def _nothing_unasked(evidence: Evidence) -> Iterator[str]:
    reported = {grant.reservation_id for _, grant in evidence.grants()}
    for row in evidence.reservations.values():
        record = evidence.by_buyer.get(row.owner_id)
        if record is None or record.outcome_unknown or row.reservation_id in reported or record.ending == "cut_off":
            continue
        yield f"{row.reservation_id} belongs to {row.owner_id}, who was not told about it"


def _none_left_behind(evidence: Evidence) -> Iterator[str]:
    """Sold out is final: later requests get no units, and no units are left at the end."""
    for product, sale in enumerate(evidence.ledger.sales):
        here = [record for record in evidence.records if record.product == product]
        told_at = min((one.sold_out_at for one in here if one.sold_out_at), default=None)
        if told_at is None:
            continue
        if sale.stock.available and evidence.is_exclusive:
            yield f"{sale.offer.sku_id} was reported as sold out, but {sale.stock.available} units are left"
        for one in here:
            late = [grant for grant in one.grants if grant.asked_at > told_at]
            yield from (f"{grant.reservation_id} was granted after the sale was reported as sold out" for grant in late)


def _bots_kept_out(evidence: Evidence) -> Iterator[str]:
    yield from evidence.reported("bots_kept_out")
    owners = {row.owner_id for row in evidence.reservations.values()}
    for record in evidence.records:
        offer = evidence.ledger.sales[record.product].offer
        is_shut_out = must_be_refused(record.bot, has_room=offer.room != "off", needs_proof=offer.needs_proof)
        if is_shut_out and (record.grants or record.buyer_id in owners):
            yield f"the bot {record.buyer_id} ({record.bot}) was granted units"


def _order_kept(evidence: Evidence) -> Iterator[str]:
    yield from evidence.reported("order_kept")
    yield from check_queue_order(evidence.records, evidence.ledger, evidence.samples)


def _free_units_offered(evidence: Evidence) -> Iterator[str]:
    yield from check_free_units(evidence.records, evidence.ledger, evidence.samples)


def _reported(invariant: str) -> Check:
    return lambda evidence: evidence.reported(invariant)


CHECKS: dict[str, Check] = {
    "all_accounted": _all_accounted,
    "yes_kept": _yes_kept,
    "charged_once": _charged_once,
    "charges_end": _charges_end,
    "limits_kept": _limits_kept,
    "not_oversold": _not_oversold,
    "all_ended": _all_ended,
    "nothing_unasked": _nothing_unasked,
    "same_key_same_answer": _reported("same_key_same_answer"),
    "none_left_behind": _none_left_behind,
    "order_kept": _order_kept,
    "free_units_offered": _free_units_offered,
    "bots_kept_out": _bots_kept_out,
    "no_server_error": _reported("no_server_error"),
}
_MEANS = {
    "all_accounted": "Each buyer of the crowd ended in exactly one way, and those who were sold something know it.",
    "yes_kept": "Every grant a buyer received is in the ledger unchanged, and every sold unit has an order.",
    "charged_once": "Nobody was charged twice: one order and capture per reservation; wallets match orders.",
    "charges_end": "All captured money belongs to an order or was refunded.",
    "limits_kept": "No buyer exceeds the per-buyer limit.",
    "not_oversold": "No more units were sold than exist; pool, reservations and orders agree.",
    "all_ended": "No hold is left open: all units are sold or available, and add up to the total.",
    "nothing_unasked": "The ledger has no reservation that its buyer was not told about.",
    "same_key_same_answer": "A repeated request with the same key got the same response.",
    "none_left_behind": "Sold out was reported only when true, and stayed true.",
    "order_kept": "The waiting room was served in order of arrival, or in the order of the draw.",
    "free_units_offered": "No unit stayed free for seconds while people were in line and nobody was called.",
    "bots_kept_out": "Forged tokens and passes, joins without proof of work and purchases out of turn got nothing.",
    "no_server_error": "No response was a server error other than 503.",
}


def check(evidence: Evidence) -> list[Finding]:
    looked_at = len(evidence.records)
    return [finding(name, _MEANS[name], looked_at, found(evidence)) for name, found in CHECKS.items()]


def _all_orders(evidence: Evidence) -> Iterator[OrderRow]:
    return (order for orders in evidence.orders.values() for order in orders)


def _sold(rows: Iterable[ReservationRow]) -> int:
    return sum(row.quantity for row in rows if row.status == "confirmed")
