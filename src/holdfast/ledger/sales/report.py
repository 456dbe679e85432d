"""The results of a sale, read from the ledger after it, for a report to people who were not there.

Everything is read in one snapshot. Pools, reservations and events belong to a SKU; the report covers what happened to
the SKU from the sale's creation until its end. Counters of attempts are kept per SKU and never reset, so they include
earlier sales of the same SKU.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, and_, case, func, or_, select

from holdfast.domain.room.pace import FRESH_PART
from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.outcome import Outcome
from holdfast.ledger.sales.incidents import Incident, incidents_of
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.stock.pool_counts import counts_of
from holdfast.ledger.stock.splits import names_of
from holdfast.ledger.tables.money import payments, refunds
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.ledger.tables.stock import events, pools, reservations
from holdfast.runtime import counters
from holdfast.runtime.histogram import quantile

# Bars of the timeline.
BARS_MAX = 60
_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
_SUCCESSES = frozenset(outcome for outcome in Outcome if outcome.is_success)
_SERIES = {
    "reservation.created": "reserved",
    "reservation.confirmed": "sold",
    "reservation.cancelled": "returned",
    "reservation.expired": "returned",
    "reservation.failed": "returned",
}


class Amount(Struct, frozen=True):
    """Totals over related rows: their number, their units, and their value in each currency."""

    number: int
    units: int
    amounts: Mapping[str, int] = {}


class Waits(Struct, frozen=True):
    """Milliseconds, over this many waits."""

    number: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


class Bar(Struct, frozen=True):
    at: int
    reserved: int = 0
    sold: int = 0
    returned: int = 0


class Line(Struct, frozen=True):
    """The waiting room, and everything needed to recompute its order."""

    mode: str
    joined: int
    called: int
    passes_given: int
    passes_used: int
    left: int
    seed_hash: str
    entrants: int | None
    digest: str | None


class SaleReport(Struct, frozen=True):
    sale: Sale
    at: int
    total: int
    available: int
    held: int
    sold: int
    first_sold_at: int | None
    last_sold_at: int | None
    reservations: Mapping[str, Amount]
    buyers: int
    orders: Mapping[str, Amount]
    refunded_amounts: Mapping[str, int]
    attempts: int
    refusals: Mapping[str, int]
    answered_in_ms: Mapping[str, float | None]
    bar_seconds: int
    timeline: Sequence[Bar]
    line: Line | None
    waits: Mapping[str, Waits]
    payments: Mapping[str, Amount]
    declines: Mapping[str, int]
    refunds: Mapping[str, Amount]
    incidents: Sequence[Incident]


def report_of(connection: Connection, sale_id: str, now: int) -> SaleReport | None:
    sale = find_sale(connection, sale_id)
    if sale is None:
        return None
    names = names_of(connection, sale.sku_id)
    counts = counts_of(connection, sale.sku_id)
    outcomes = {name: number for name, number in _starting(counts, counters.TOLD).items() if name not in _MOVES}
    total, held, sold = _pool(connection, names)
    first, last = _sold_between(connection, sale_id)
    seconds, bars = _timeline(connection, sale, names)
    made = _of_sale(reservations, sale, names)
    return SaleReport(
        sale=sale,
        at=now,
        total=total,
        available=total - held - sold,
        held=held,
        sold=sold,
        first_sold_at=first,
        last_sold_at=last,
        reservations=_by_status(connection, made),
        buyers=int(connection.execute(select(func.count(reservations.c.owner_id.distinct())).where(made)).scalar_one()),
        orders=_summed(connection, orders, orders.c.status, orders.c.sale_id == sale_id),
        refunded_amounts=_refunded(connection, sale_id),
        attempts=sum(outcomes.values()),
        refusals={name: number for name, number in sorted(outcomes.items()) if name not in _SUCCESSES},
        answered_in_ms=_answered(counts),
        bar_seconds=seconds,
        timeline=bars,
        line=_line(connection, sale),
        waits=_waits(connection, sale, made),
        payments=_summed(connection, payments, payments.c.state, payments.c.sale_id == sale_id),
        declines=_declines(connection, sale_id),
        refunds=_refunds(connection, sale_id),
        incidents=incidents_of(connection, sale, names, now),
    )


_MOVES = frozenset({"not_found", "already", "illegal", "extension_limit", "moved"})


def _starting(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in counts.items() if name.startswith(prefix)}


def _answered(counts: Mapping[str, int]) -> dict[str, float | None]:
    took = _starting(counts, counters.TOOK)
    bins = [took.get(str(index), 0) for index in range(len(counters.BOUNDS_MS) + 1)]
    return {f"p{share * 100:g}": quantile(counters.BOUNDS_MS, bins, share) for share in (0.5, 0.95, 0.99)}


def _pool(connection: Connection, names: Sequence[str]) -> tuple[int, int, int]:
    summed = [func.coalesce(func.sum(column), 0) for column in (pools.c.total, pools.c.held, pools.c.sold)]
    total, held, sold = connection.execute(select(*summed).where(pools.c.sku_id.in_(names))).one()
    return int(total), int(held), int(sold)


def _of_sale(table: Table, sale: Sale, names: Sequence[str]) -> ColumnElement[bool]:
    at = table.c.created_at if "created_at" in table.c else table.c.at
    during = at >= sale.created_at if sale.closed_at is None else at.between(sale.created_at, sale.closed_at)
    # Reservations from before the end may be paid after it.
    return and_(table.c.sku_id.in_(names), during if table is reservations else at >= sale.created_at)


def _summed(
    connection: Connection, table: Table, by: ColumnElement[str], wanted: ColumnElement[bool]
) -> dict[str, Amount]:
    units = func.coalesce(func.sum(table.c.quantity), 0) if "quantity" in table.c else func.count() * 0
    keys = (by, table.c.currency)
    query = select(*keys, func.count(), units, func.coalesce(func.sum(table.c.amount), 0)).where(wanted)
    found: dict[str, Amount] = {}
    for name, currency, n, u, a in connection.execute(query.group_by(*keys).order_by(*keys)):
        others = found.get(str(name), Amount(0, 0))
        found[str(name)] = Amount(others.number + int(n), others.units + int(u), {**others.amounts, currency: int(a)})
    return found


def _by_status(connection: Connection, made: ColumnElement[bool]) -> dict[str, Amount]:
    status = reservations.c.status
    query = select(status, func.count(), func.sum(reservations.c.quantity)).where(made).group_by(status)
    return {name: Amount(int(n), int(u)) for name, n, u in connection.execute(query.order_by(status))}


def _sold_between(connection: Connection, sale_id: str) -> tuple[int | None, int | None]:
    paid = select(func.min(orders.c.confirmed_at), func.max(orders.c.confirmed_at))
    first, last = connection.execute(paid.where(orders.c.sale_id == sale_id, is_sold)).one()
    return first, last


def _refunded(connection: Connection, sale_id: str) -> dict[str, int]:
    currency, refunded = orders.c.currency, func.sum(orders.c.refunded_amount)
    some = and_(orders.c.sale_id == sale_id, orders.c.refunded_amount > 0)
    query = select(currency, refunded).where(some).group_by(currency).order_by(currency)
    return {name: int(amount) for name, amount in connection.execute(query)}


def _declines(connection: Connection, sale_id: str) -> dict[str, int]:
    reason = func.coalesce(payments.c.reason, "no reason given")
    declined = and_(payments.c.sale_id == sale_id, payments.c.state == "declined")
    query = select(reason, func.count()).where(declined).group_by(reason).order_by(func.count().desc(), reason)
    return {str(name): int(number) for name, number in connection.execute(query)}


def _refunds(connection: Connection, sale_id: str) -> dict[str, Amount]:
    theirs = refunds.c.payment_key.in_(select(payments.c.payment_key).where(payments.c.sale_id == sale_id))
    ordered = refunds.c.order_id.in_(select(orders.c.order_id).where(orders.c.sale_id == sale_id))
    return _summed(connection, refunds, refunds.c.state, or_(theirs, ordered))


def _timeline(connection: Connection, sale: Sale, names: Sequence[str]) -> tuple[int, list[Bar]]:
    wanted = and_(_of_sale(events, sale, names), events.c.type.in_(_SERIES))
    first, last = connection.execute(select(func.min(events.c.at), func.max(events.c.at)).where(wanted)).one()
    if first is None:
        return _WIDTHS_S[0], []
    seconds = next((width for width in _WIDTHS_S if (last - first) / 1000 / width < BARS_MAX), _WIDTHS_S[-1])
    start, step = first - first % (seconds * 1000), seconds * 1000
    bar = ((events.c.at - start) // step).label("bar")
    kind = case(*[(events.c.type == type_, name) for type_, name in _SERIES.items()]).label("kind")
    query = select(bar, kind, func.sum(events.c.quantity)).where(wanted).group_by(bar, kind)
    found: dict[int, dict[str, int]] = {}
    for number, name, units in connection.execute(query):
        found.setdefault(int(number), {})[name] = int(units or 0)
    return seconds, [Bar(start + index * step, **found.get(index, {})) for index in range(max(found) + 1)]


def _line(connection: Connection, sale: Sale) -> Line | None:
    row = connection.execute(select(rooms).where(rooms.c.sale_id == sale.line_id)).one_or_none()
    if row is None:
        return None
    return Line(
        row.mode or sale.room.mode.value,
        row.joined,
        row.serving,
        row.passes_given,
        row.passes_used,
        row.leaves,
        row.seed_hash,
        row.entrants,
        row.digest,
    )


def _waits(connection: Connection, sale: Sale, made: ColumnElement[bool]) -> dict[str, Waits]:
    # A pass becomes stale after a known share of its lifetime, so the two times determine when it was given.
    given_at = places.c.pass_until - (places.c.pass_until - places.c.stale_at) / (1 - FRESH_PART)
    in_line = and_(places.c.sale_id == sale.line_id, places.c.stale_at.is_not(None))
    paid = and_(made, reservations.c.confirmed_at.is_not(None))
    found = {
        "from joining to the pass": _quantiles(connection, given_at - places.c.joined_at, in_line),
        "from the pass to the purchase": _quantiles(
            connection, places.c.used_at - given_at, and_(in_line, places.c.used_at.is_not(None))
        ),
        "from the reservation to the payment": _quantiles(
            connection, reservations.c.confirmed_at - reservations.c.created_at, paid
        ),
    }
    return {name: waits for name, waits in found.items() if waits is not None}


def _quantiles(
    connection: Connection, duration: ColumnElement[int] | ColumnElement[float], wanted: ColumnElement[bool]
) -> Waits | None:
    """Reads one row at each rank, because the engines share no function for quantiles."""
    number = int(connection.execute(select(func.count(duration)).where(wanted)).scalar_one())
    if not number:
        return None
    ranked = select(duration).where(wanted).order_by(duration).limit(1)
    ranks = [min(number - 1, int(number * share)) for share in (0.5, 0.95, 0.99, 1.0)]
    values = [int(connection.execute(ranked.offset(rank)).scalar_one()) for rank in ranks]
    return Waits(number, *values)
