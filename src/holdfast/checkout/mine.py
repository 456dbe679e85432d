"""What a buyer has in a sale, whatever device they used: their place, their reservations, their orders."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.domain.room.room import Place
from holdfast.domain.sale.sale import Order, RoomMode, Sale
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.ledger.replicas.reads import LedgerReads
from holdfast.ledger.room.queries import find_place
from holdfast.ledger.sales.sale_lists import list_orders
from holdfast.ledger.stock.queries import ids_of_owner, list_reservations
from holdfast.runtime.batching import KeyedBatcher
from holdfast.sales.catalogue import Catalogue

SHOWN_MAX = 100
# Holds of refused buyers are read in batches; at most this many buyers wait, this long. Others get no list.
REFUSED_TOGETHER, REFUSED_MAX, REFUSED_WAIT_S = 32, 512, 1.0
_LIVE = (Status.ACTIVE, Status.SETTLING)


class Mine(Struct, frozen=True):
    place: Place | None
    # Newest first.
    reservations: list[Reservation]
    orders: list[Order]


class FindMine:
    def __init__(
        self, reads: LedgerReads, catalogue: Catalogue, catch_up: Callable[[str | None], Awaitable[None]]
    ) -> None:
        self._reads = reads
        self._catalogue = catalogue
        self._catch_up = catch_up
        self._refused: KeyedBatcher[tuple[Sale, str], list[str]] = KeyedBatcher(
            self._live_ids, batch_max=REFUSED_TOGETHER, queue_max=REFUSED_MAX, timeout_s=REFUSED_WAIT_S
        )

    async def find(self, sale: Sale, buyer_id: str, seen: str | None = None) -> Mine:
        await self._catch_up(sale.sku_id)
        return await self._reads.read(lambda connection: self._read(connection, sale, buyer_id), seen)

    async def live_ids(self, sale: Sale, buyer_id: str) -> list[str]:
        """The holds because of which a buyer was refused.

        Buyers refused during a read share the next one, so persistent buyers cost one read at a time per pool.
        """
        return await self._refused.submit(sale.sku_id, (sale, buyer_id))

    async def _live_ids(self, sku_id: str, refused: Sequence[tuple[Sale, str]], /) -> list[list[str]]:
        await self._catch_up(sku_id)

        def read(connection: Connection) -> list[list[str]]:
            asked = {(sale.sale_id, buyer_id): (sale, buyer_id) for sale, buyer_id in refused}
            found = {key: self._reservations(connection, *one) for key, one in asked.items()}
            ids = {key: [one.reservation_id for one in of if one.status in _LIVE] for key, of in found.items()}
            return [ids[sale.sale_id, buyer_id] for sale, buyer_id in refused]

        return await self._reads.read(read)

    def _read(self, connection: Connection, sale: Sale, buyer_id: str) -> Mine:
        has_room = sale.room.mode is not RoomMode.OFF
        orders, _ = list_orders(connection, limit=SHOWN_MAX, buyer_id=buyer_id, sale_id=sale.sale_id)
        return Mine(
            find_place(connection, sale.line_id, buyer_id) if has_room else None,
            self._reservations(connection, sale, buyer_id),
            orders,
        )

    def _reservations(self, connection: Connection, sale: Sale, buyer_id: str) -> list[Reservation]:
        now = self._reads.now_ms(connection)
        ids = ids_of_owner(connection, buyer_id, sale.sku_id)
        found, _ = list_reservations(connection, now, limit=SHOWN_MAX, sku_id=sale.sku_id, owner_id=buyer_id, among=ids)
        return [one for one in found if self._is_in(sale, one)]

    def _is_in(self, sale: Sale, reservation: Reservation) -> bool:
        of = self._catalogue.sale_of(reservation)
        return of is not None and of.sale_id == sale.sale_id
