"""Lists of sales and orders, and the writes of a sale's lifecycle."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Integer, bindparam, delete, exists, or_, select, update

from holdfast.domain.sale.sale import Order, OrderStatus, Sale, SaleState, read_order_number
from holdfast.domain.stock.pool import Pool
from holdfast.ledger.engine.facts import record
from holdfast.ledger.engine.rows import encode_rows, newest_rows
from holdfast.ledger.sales.sales import is_pool_of, record_sale, sale_values
from holdfast.ledger.stock.shared_reads import Ledger, Look, Shown
from holdfast.ledger.tables.rows import order_from_row, pool_from_row, sale_from_row
from holdfast.ledger.tables.sales import is_to_source, orders, sales
from holdfast.ledger.tables.stock import pools

# Orders on a page by default.
ORDERS_SHOWN = 20

# One page, and whether there is more.
ListedOrders = tuple[list[Order], bool]


class SaleAndPool(Struct, frozen=True):
    """A sale and its pool in the ledger; None before the pool is loaded, or after another sale took it over."""

    sale: Sale
    pool: Pool | None


def lock_sale(connection: Connection, sale_id: str) -> Sale | None:
    row = connection.execute(select(sales).where(sales.c.sale_id == sale_id).with_for_update()).one_or_none()
    return None if row is None else sale_from_row(row)


def is_in_sale(connection: Connection, sku_id: str, closed_after: int | None = None) -> bool:
    """Whether this pool is in a sale that is not closed, or was closed only recently."""
    goes_on: ColumnElement[bool] = sales.c.state != SaleState.CLOSED
    if closed_after is not None:
        goes_on = or_(goes_on, sales.c.closed_at > closed_after)
    return bool(connection.execute(select(exists().where(sales.c.sku_id == sku_id, goes_on))).scalar())


def sale_of_pool(connection: Connection, sku_id: str) -> str | None:
    """The sale that this pool belongs to."""
    sale_id: str | None = connection.execute(select(pools.c.sale_id).where(is_pool_of(sku_id)).limit(1)).scalar()
    return sale_id


def remove_unloaded_sale(connection: Connection, sale_id: str, now: int) -> None:
    unloaded = (sales.c.sale_id == sale_id, sales.c.state == SaleState.LOADING)
    sku_id = connection.execute(delete(sales).where(*unloaded).returning(sales.c.sku_id)).scalar_one_or_none()
    if sku_id is not None:
        record(connection, sku_id, "sale.removed", now, {"removed": {"sales": [{"sale_id": sale_id}]}}, subject=sale_id)


def changed_sales(connection: Connection, since: int, *, limit: int) -> list[Sale]:
    """The sales updated since then, latest first."""
    return [sale_from_row(row) for row in connection.execute(_CHANGED, {"since": since, "limit": limit})]


_CHANGED = (
    select(sales)
    .where(sales.c.updated_at >= bindparam("since"))
    .order_by(sales.c.updated_at.desc())
    .limit(bindparam("limit", type_=Integer))
)


def find_sales(connection: Connection, sale_ids: Collection[str]) -> list[Sale]:
    return [sale_from_row(row) for row in connection.execute(select(sales).where(sales.c.sale_id.in_(sale_ids)))]


def list_sales(connection: Connection, *, limit: int, starting_after: str | None) -> tuple[list[Sale], bool]:
    """By id. Returns one page, and whether there is more."""
    wanted = select(sales).order_by(sales.c.sale_id).limit(limit + 1)
    if starting_after is not None:
        wanted = wanted.where(sales.c.sale_id > starting_after)
    page = [sale_from_row(row) for row in connection.execute(wanted)]
    return page[:limit], len(page) > limit


def sales_to_look_after(connection: Connection, changed_since: int) -> list[SaleAndPool]:
    """The sales that are not closed, and those closed so recently that their pools may not reflect it yet."""
    found = [sale_from_row(row) for row in connection.execute(_TO_LOOK_AFTER, {"changed_since": changed_since})]
    theirs = connection.execute(select(pools).where(pools.c.sale_id.in_([sale.sale_id for sale in found])))
    by_sale = {row.sale_id: pool_from_row(row) for row in theirs}
    return [SaleAndPool(sale, by_sale.get(sale.sale_id)) for sale in found]


_TO_LOOK_AFTER = select(sales).where(
    or_(sales.c.state != SaleState.CLOSED, sales.c.updated_at >= bindparam("changed_since"))
)


def update_sale_if(
    connection: Connection, sale: Sale, changes: dict[str, object], *, now: int, event: str | None = None
) -> bool:
    """Update the sale only if it is unchanged since it was read. Records it, as the given event if there is one."""
    unchanged = (sales.c.sale_id == sale.sale_id, sales.c.updated_at == sale.updated_at, sales.c.state == sale.state)
    # Two writes within a millisecond must not look like one.
    written_at = max(now, sale.updated_at + 1)
    done = connection.execute(update(sales).where(*unchanged).values(**changes, updated_at=written_at)).rowcount == 1
    if done:
        before = {name: value for name, value in sale_values(sale).items() if name in changes}
        after = {"sale_id": sale.sale_id, **changes, "updated_at": written_at}
        record_sale(connection, sale.sku_id, after, now, event=event, before=before)
    return done


def list_orders(
    connection: Connection,
    *,
    limit: int,
    buyer_id: str | None = None,
    sale_id: str | None = None,
    starting_after: str | None = None,
    to_source: bool = False,
    status: OrderStatus | None = None,
    number: str | None = None,
) -> ListedOrders:
    """Newest first."""
    wanted = select(orders).order_by(orders.c.order_id.desc()).limit(limit + 1)
    if buyer_id is not None:
        wanted = wanted.where(orders.c.buyer_id == buyer_id)
    if sale_id is not None:
        wanted = wanted.where(orders.c.sale_id == sale_id)
    if status is not None:
        wanted = wanted.where(orders.c.status == status.value)
    if number is not None:
        wanted = wanted.where(orders.c.number == read_order_number(number))
    if to_source:
        wanted = wanted.where(is_to_source)
    if starting_after is not None:
        wanted = wanted.where(orders.c.order_id < starting_after)
    page = [order_from_row(row) for row in connection.execute(wanted)]
    return page[:limit], len(page) > limit


class OrderQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._newest = newest_rows(dialect_name, orders, orders.c.buyer_id, orders.c.order_id, ORDERS_SHOWN + 1)

    def first_pages(self, connection: Connection, buyer_ids: Iterable[str]) -> dict[str, ListedOrders]:
        """By buyer, for those who have orders; newest first."""
        found: dict[str, list[Order]] = defaultdict(list)
        for row in connection.execute(self._newest, {"rows": encode_rows([b] for b in buyer_ids)}):
            found[row.buyer_id].append(order_from_row(row))
        for page in found.values():
            page.sort(key=lambda order: order.order_id, reverse=True)
        return {buyer_id: (page[:ORDERS_SHOWN], len(page) > ORDERS_SHOWN) for buyer_id, page in found.items()}


def orders_in(database: Ledger) -> Look[ListedOrders]:
    """Reads the newest orders of buyers."""
    queries = OrderQueries(database.dialect_name)

    async def first_pages(buyer_ids: Iterable[str]) -> Shown[ListedOrders]:
        return await database.read(lambda connection: queries.first_pages(connection, buyer_ids))

    return first_pages
