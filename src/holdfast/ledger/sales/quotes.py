"""Quotes, and the prices of the reservations that were made with them."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.sale.quote import Quote, QuotedPrice, may_be_quoted, price_of, read_price, write_price
from holdfast.domain.sale.sale import reacquired_id
from holdfast.ledger.tables.sales import quoted_prices, quotes

UNUSED_WITHIN_MS = 3_600_000


def insert_quote(connection: Connection, quote: Quote) -> None:
    connection.execute(insert(quotes).values(**asdict(quote)))


def find_quote(connection: Connection, quote_id: str) -> Quote | None:
    row = connection.execute(select(quotes).where(quotes.c.quote_id == quote_id)).one_or_none()
    return None if row is None else Quote(**row._mapping)  # noqa: SLF001 - the documented way to all columns of a row


def claim_quote(connection: Connection, quote: Quote, key: str) -> bool:
    """Whether the purchase with this key may use the quote. If so, its reservation gets the price, and no other key can
    use the quote."""
    free = or_(quotes.c.key.is_(None), quotes.c.key == key)
    claimed = update(quotes).where(quotes.c.quote_id == quote.quote_id, free).values(key=key)
    if connection.execute(claimed).rowcount == 0:
        return False
    shared = {
        "sale_id": quote.sale_id,
        "amount": quote.amount,
        "currency": quote.currency,
        "quote": write_price(price_of(quote)),
    }
    ids = (quote.reservation_id, reacquired_id(quote.reservation_id))
    connection.execute(_NOTE[connection.dialect.name], [{"reservation_id": id_, **shared} for id_ in ids])
    return True


def _note(dialect_insert: Any) -> Any:
    return dialect_insert(quoted_prices).on_conflict_do_nothing(index_elements=[quoted_prices.c.reservation_id])


_NOTE = {"sqlite": _note(sqlite_insert), "postgresql": _note(postgresql_insert)}


def prices_of(connection: Connection, reservation_ids: Iterable[str]) -> Mapping[str, QuotedPrice]:
    """By reservation. Reservations without a quote are left out; if none can have one, there is no query."""
    ids = [id_ for id_ in reservation_ids if may_be_quoted(id_)]
    if not ids:
        return {}
    query = select(quoted_prices.c.reservation_id, quoted_prices.c.quote).where(quoted_prices.c.reservation_id.in_(ids))
    return {row.reservation_id: read_price(row.quote) for row in connection.execute(query)}


def prune_quotes(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete expired quotes. What was bought with them keeps its price."""
    return _delete_some(connection, limit, quotes.c.expires_at < older_than)


def prune_unused_quotes(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete quotes that expired unused: a buyer may request any number of them. Not every quote is checked each time;
    any that are missed are left to `prune_quotes`."""
    is_old = quotes.c.expires_at.between(older_than - UNUSED_WITHIN_MS, older_than)
    return _delete_some(connection, limit, quotes.c.key.is_(None), is_old)


def _delete_some(connection: Connection, limit: int, *which: ColumnElement[bool]) -> int:
    some = select(quotes.c.quote_id).where(*which).limit(limit)
    return connection.execute(delete(quotes).where(quotes.c.quote_id.in_(some))).rowcount
