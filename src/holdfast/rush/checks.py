"""The server's books against what each simulated buyer saw. Pure: testimonies and books in, findings out.

Each check names an invariant and counts counter-examples, as `holdfast verify` does; but that reads the ledger alone,
and cannot know what people were told. Two witnesses who were never in one room are worth more than one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from holdfast.rush.books import Books
from holdfast.rush.bots import must_get_nothing
from holdfast.rush.line_checks import line_kept
from holdfast.rush.operator import OrderRow, ReservationRow
from holdfast.rush.testimony import Grant, Testimony
from holdfast.rush.watch import Sample

EXAMPLES_MAX = 5
# What may become of units after a buyer was last told this of them.
_MAY_BECOME = {
    "active": {"active", "settling", "confirmed", "failed", "cancelled", "expired"},
    "settling": {"settling", "confirmed", "failed"},
    "confirmed": {"confirmed"},
    "failed": {"failed"},
    "cancelled": {"cancelled"},
    "expired": {"expired"},
}


class Finding(Struct, frozen=True):
    name: str
    means: str
    looked_at: int
    count: int
    examples: list[str]

    @property
    def ok(self) -> bool:
        return self.count == 0

    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.ok,
            "count": self.count,
            "examples": self.examples,
            "looked_at": self.looked_at,
            "means": self.means,
        }


class Evidence:
    """All that is known in the end, put in order once for every check."""

    def __init__(
        self, testimonies: Sequence[Testimony], books: Books, samples: Sequence[Sample], *, is_alone: bool
    ) -> None:
        self.testimonies, self.books, self.samples, self.is_alone = testimonies, books, samples, is_alone
        self.ours = {testimony.buyer_id: testimony for testimony in testimonies}
        self.reservations = {row.reservation_id: row for sale in books.sales for row in sale.reservations}
        self.orders: dict[str, list[OrderRow]] = defaultdict(list)
        for sale in books.sales:
            for order in sale.orders:
                self.orders[order.reservation_id].append(order)

    def grants(self) -> Iterator[tuple[Testimony, Grant]]:
        return ((testimony, grant) for testimony in self.testimonies for grant in testimony.grants)

    def sworn(self, invariant: str) -> Iterator[str]:
        for testimony in self.testimonies:
            yield from (f"{testimony.buyer_id}: {what}" for name, what in testimony.odd if name == invariant)


Check = Callable[[Evidence], Iterable[str]]


def _yes_kept(evidence: Evidence) -> Iterator[str]:
    yield from evidence.sworn("yes_kept")
    yield from evidence.sworn("tickets_honoured")
    for testimony, grant in evidence.grants():
        row = evidence.reservations.get(grant.reservation_id)
        if row is None:
            yield f"{testimony.buyer_id} was granted {grant.reservation_id}, which is not in the books"
        elif (row.owner_id, row.quantity) != (testimony.buyer_id, grant.quantity):
            told = f"{grant.quantity} for {testimony.buyer_id}"
            yield f"{grant.reservation_id} is {row.quantity} for {row.owner_id}, and was told to be {told}"
        elif row.status not in _MAY_BECOME.get(grant.status, {row.status}):
            yield f"{grant.reservation_id} was told to be {grant.status}, and is {row.status}"
        elif row.status == "confirmed" and not evidence.orders.get(grant.reservation_id):
            yield f"{grant.reservation_id} is sold, and there is no order of it"


def _charged_once(evidence: Evidence) -> Iterator[str]:
    for reservation_id, orders in evidence.orders.items():
        if len(orders) > 1:
            yield f"{reservation_id} has {len(orders)} orders"
    charged: Counter[str] = Counter()
    for payment in evidence.books.payments or []:
        charged[payment.charge.reservation_id] += payment.captures
        if payment.captures > 1:
            yield f"payment {payment.key} was captured {payment.captures} times"
    yield from (f"{name} was charged {times} times" for name, times in charged.items() if times > 1)
    spent: Counter[str] = Counter()
    for order in _all_orders(evidence):
        spent[order.buyer_id] += order.amount - order.refunded_amount
    for buyer_id, balance in evidence.books.balances.items():
        credited = evidence.ours[buyer_id].credited
        if credited - balance != spent[buyer_id]:
            yield f"{buyer_id} had {credited}, has {balance}, and orders for {spent[buyer_id]}"


def _charges_end(evidence: Evidence) -> Iterator[str]:
    for payment in evidence.books.payments or []:
        orders = evidence.orders.get(payment.charge.reservation_id, [])
        ordered = sum(order.amount - order.refunded_amount for order in orders)
        if payment.captured - payment.refunded != ordered:
            yield f"{payment.charge.reservation_id}: {payment.captured - payment.refunded} kept, orders for {ordered}"


def _limits_kept(evidence: Evidence) -> Iterator[str]:
    yield from evidence.sworn("limits_kept")
    for sale in evidence.books.sales:
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
    for sale in evidence.books.sales:
        total = sale.stock.total_units
        claims = {"pool says": sale.stock.sold, "reservations say": _sold(sale.reservations)}
        if sale.offer.payment != "external" or sale.orders:
            claims["orders say"] = sum(order.quantity for order in sale.orders if order.status == "confirmed")
        for who, sold in claims.items():
            if sold > total:
                yield f"{sale.offer.sku_id}: the {who} {sold} units are sold of {total}"
        if len(set(claims.values())) > 1:
            told = ", ".join(f"the {who} {sold}" for who, sold in claims.items())
            yield f"{sale.offer.sku_id}: it is not agreed how many units are sold: {told}"


def _all_ended(evidence: Evidence) -> Iterator[str]:
    for sale in evidence.books.sales:
        stock = sale.stock
        if stock.available + stock.held + stock.sold != stock.total_units or stock.available < 0:
            yield f"{sale.offer.sku_id}: {stock.available} + {stock.held} + {stock.sold} is not {stock.total_units}"
        if evidence.is_alone and stock.held:
            yield f"{sale.offer.sku_id}: {stock.held} units are still held"
        for row in sale.reservations:
            if row.status in ("active", "settling") and row.owner_id in evidence.ours:
                yield f"{row.reservation_id} is still {row.status}"


def _nothing_unasked(evidence: Evidence) -> Iterator[str]:
    told = {grant.reservation_id for _, grant in evidence.grants()}
    for row in evidence.reservations.values():
        testimony = evidence.ours.get(row.owner_id)
        if testimony is None or testimony.unsure or row.reservation_id in told or testimony.ending == "cut_off":
            continue
        yield f"{row.reservation_id} is {row.owner_id}'s, who knows nothing of it"


def _none_left_behind(evidence: Evidence) -> Iterator[str]:
    """Sold out is final: nobody gets units who asks after somebody was told so, and none are left in the end."""
    for product, sale in enumerate(evidence.books.sales):
        here = [testimony for testimony in evidence.testimonies if testimony.product == product]
        told_at = min((one.sold_out_at for one in here if one.sold_out_at), default=None)
        if told_at is None:
            continue
        if sale.stock.available and evidence.is_alone:
            yield f"{sale.offer.sku_id} was told to be sold out, and {sale.stock.available} units are left"
        for one in here:
            late = [grant for grant in one.grants if grant.asked_at > told_at]
            yield from (f"{grant.reservation_id} was granted after others were told that all is sold" for grant in late)


def _bots_kept_out(evidence: Evidence) -> Iterator[str]:
    yield from evidence.sworn("bots_kept_out")
    owners = {row.owner_id for row in evidence.reservations.values()}
    for testimony in evidence.testimonies:
        offer = evidence.books.sales[testimony.product].offer
        is_shut_out = must_get_nothing(testimony.bot, has_room=offer.room != "off", needs_proof=offer.needs_proof)
        if is_shut_out and (testimony.grants or testimony.buyer_id in owners):
            yield f"the bot {testimony.buyer_id} ({testimony.bot}) was granted units"


def _order_kept(evidence: Evidence) -> Iterator[str]:
    yield from evidence.sworn("order_kept")
    yield from line_kept(evidence.testimonies, evidence.books, evidence.samples)


def _sworn(invariant: str) -> Check:
    return lambda evidence: evidence.sworn(invariant)


CHECKS: dict[str, Check] = {
    "yes_kept": _yes_kept,
    "charged_once": _charged_once,
    "charges_end": _charges_end,
    "limits_kept": _limits_kept,
    "not_oversold": _not_oversold,
    "all_ended": _all_ended,
    "nothing_unasked": _nothing_unasked,
    "same_key_same_answer": _sworn("same_key_same_answer"),
    "none_left_behind": _none_left_behind,
    "order_kept": _order_kept,
    "bots_kept_out": _bots_kept_out,
    "no_server_error": _sworn("no_server_error"),
}
_MEANS = {
    "yes_kept": "Whoever was told yes has it: every grant is in the books as it was told, every sale has its order.",
    "charged_once": "Nobody was charged twice: one order and capture per reservation, wallets less by their orders.",
    "charges_end": "All money taken by the payment provider is in an order, or went back.",
    "limits_kept": "No buyer has more units than the sale allows.",
    "not_oversold": "No more units were sold than there are; pool, reservations and orders agree on how many.",
    "all_ended": "Every hold ended: units are sold or available, and add up to all there are.",
    "nothing_unasked": "No reservation is in the books that its buyer was not told of.",
    "same_key_same_answer": "A repeat under the same key got the same answer.",
    "none_left_behind": "Sold out was said when it was so, and for good.",
    "order_kept": "The line was served in its order: first come, first called; or as the lottery was drawn.",
    "bots_kept_out": "Forged tokens and passes, joins without proof, purchases without a turn got nothing.",
    "no_server_error": "No request was answered with a server error but 503.",
}


def check(evidence: Evidence) -> list[Finding]:
    return [_finding(name, len(evidence.testimonies), found(evidence)) for name, found in CHECKS.items()]


def _finding(name: str, looked_at: int, found: Iterable[str]) -> Finding:
    examples = list(found)
    return Finding(name, _MEANS[name], looked_at, len(examples), examples[:EXAMPLES_MAX])


def _all_orders(evidence: Evidence) -> Iterator[OrderRow]:
    return (order for orders in evidence.orders.values() for order in orders)


def _sold(rows: Iterable[ReservationRow]) -> int:
    return sum(row.quantity for row in rows if row.status == "confirmed")
