"""Loads the subjects of many events at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, Connection, Row, Table

from holdfast.domain.sale.sale import order_id_of
from holdfast.ledger.engine.rows import encode_rows, rows_matching
from holdfast.ledger.tables.money import payments, refunds
from holdfast.ledger.tables.sales import orders, sales
from holdfast.ledger.tables.stock import pools, reservations

Found = Mapping[str, Row[Any]]
# Of the traced reservations (`traces.py`), by reservation.
FindTraces = Callable[[Connection, Iterable[str | None]], Mapping[str, str]]


class Facts(Struct, frozen=True):
    reservations: Found
    pools: Found
    orders: Found
    sales: Found
    # By reservation, for failed payments.
    payments: Found = {}
    refunds: Found = {}
    # The traceparents of traced reservations, by reservation.
    traces: Mapping[str, str] = {}

    def sale_of(self, sku_id: str) -> str | None:
        pool = self.pools.get(sku_id)
        return None if pool is None else pool.sale_id

    @staticmethod
    def sku_of(event: Row[Any]) -> str:
        """A pool may be a shard, such as `sku/3`; receivers see the SKU."""
        name: str = event.sku_id
        return name.partition("/")[0]


class FactQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str, find_traces: FindTraces | None = None) -> None:
        """`find_traces`: None if nothing is traced."""
        self._find_traces = find_traces
        self._by_key = {
            key: rows_matching(dialect_name, key.table, [key])
            for key in (
                reservations.c.reservation_id,
                pools.c.sku_id,
                orders.c.order_id,
                sales.c.sale_id,
                payments.c.reservation_id,
                refunds.c.refund_id,
            )
            if isinstance(key.table, Table)
        }

    def about(self, connection: Connection, told: Sequence[Row[Any]]) -> Facts:
        # The subject of an order event may be a refund; its reservation identifies the order.
        ordered = {order_id_of(e.reservation_id) for e in told if e.type.startswith("order.") and e.reservation_id}
        sold = {e.subject for e in told if e.type.startswith("sale.")}
        failed = {e.reservation_id for e in told if e.type == "reservation.failed"}
        refunded = {e.subject for e in told if e.type == "order.refunded"}
        return Facts(
            self._find(connection, reservations.c.reservation_id, {e.reservation_id for e in told}),
            self._find(connection, pools.c.sku_id, {e.sku_id for e in told}),
            self._find(connection, orders.c.order_id, ordered),
            self._find(connection, sales.c.sale_id, sold),
            self._find(connection, payments.c.reservation_id, failed),
            self._find(connection, refunds.c.refund_id, refunded),
            {} if self._find_traces is None else self._find_traces(connection, {e.reservation_id for e in told}),
        )

    def _find(self, connection: Connection, key: Column[Any], wanted: set[str | None] | set[str]) -> Found:
        names = [[name] for name in wanted if name is not None]
        if not names:
            return {}
        rows = connection.execute(self._by_key[key], {"rows": encode_rows(names)})
        if key is payments.c.reservation_id:
            rows = sorted(rows, key=lambda row: row.attempt)  # type: ignore[assignment]
        return {row._mapping[key.name]: row for row in rows}  # noqa: SLF001 - the documented way to a column by name
