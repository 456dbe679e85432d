"""The operations on a sale: create, change, pause, close, restock."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from holdfast.access.origins import origin_of
from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.drop import SALES_MAX, join_contradictions
from holdfast.domain.sale.sale import FIXED_AT_START, PaymentKind, Room, RoomMode, Sale, SaleState, contradictions
from holdfast.domain.stock.command import Verdict
from holdfast.gate.engine import Restocker
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import lock_room, make_room, update_room
from holdfast.ledger.sales.drops import count_sales, find_drop, lock_drop
from holdfast.ledger.sales.sale_lists import is_in_sale, lock_sale, remove_unloaded_sale, update_sale_if
from holdfast.ledger.sales.sales import find_sale, insert_sale, sale_values
from holdfast.runtime.sealing import Sealer
from holdfast.sales.loading import Loader, Obstacle
from holdfast.sales.restocking import Restocking, Unrestocked

# Servers may see a sale with up to this delay (`Catalogue`). So the price is fixed from this long before the start, and
# a start cannot be moved closer than this.
SETTLED_BEFORE_MS = 3_000

# Fields that describe the state of the sale rather than its terms.
_STATE_FIELDS = {
    "state", "problem", "paused", "deliverable_units", "created_at", "updated_at", "opened_at", "closed_at",
}  # fmt: skip


class Refusal(StrEnum):
    NOT_FOUND = "sale_not_found"
    EXISTS = "sale_exists"
    SKU_IN_SALE = "sku_in_sale"
    BELOW_COMMITTED = "below_committed"
    STARTED = "sale_started"
    ORDER_FIXED = "order_fixed"
    ENDED = "sale_ended"
    NOT_LOADED = "sale_not_loaded"
    DROP_NOT_FOUND = "drop_not_found"
    DROP_EXISTS = "drop_exists"
    DROP_FULL = "drop_full"


class Contradiction(Struct, frozen=True):
    """Why the values are invalid, by field."""

    fields: dict[str, str]


class Created(Struct, frozen=True):
    sale: Sale
    is_new: bool = True


class SaleOperations:
    def __init__(
        self,
        database: Database,
        gate: Gate,
        loader: Loader,
        missing_settings: Mapping[PaymentKind, str],
        sealer: Sealer,
        restocker: Restocker | None = None,
        origins: frozenset[str] = frozenset(),
    ) -> None:
        """`missing_settings`: the payment kinds that this server cannot take, each with the missing setting.
        `origins`: where a sale's `checkout_url` may be."""
        self._database = database
        self._restocking = Restocking(database, gate, restocker)
        self._loader = loader
        self._missing_settings = missing_settings
        self._origins = origins
        self._sealer = sealer

    async def create(self, wanted: Sale) -> Created | Refusal | Contradiction:
        wrong = self._contradictions(wanted) or self._foreign_checkout(wanted)
        if wrong is not None:
            return wrong
        try:
            found = await self._database.write(lambda c: self._insert(c, wanted))
        except IntegrityError:
            # A concurrent request created one. It is visible now.
            found = await self._database.write(lambda c: self._insert(c, wanted))
        if not isinstance(found, Created):
            return found
        sale, is_new = found.sale, found.is_new
        if is_new or sale.state is SaleState.LOADING:
            loaded = await self._loader.load(sale)
            if loaded.obstacle is Obstacle.BELOW_COMMITTED:
                await self._database.write(lambda c: remove_unloaded_sale(c, sale.sale_id, self._database.now_ms(c)))
                return Refusal.BELOW_COMMITTED
            sale = loaded.sale
        return Created(sale, is_new)

    def _contradictions(self, sale: Sale) -> Contradiction | None:
        wrong = contradictions(sale)
        setting = self._missing_settings.get(sale.payment)
        if setting is not None:
            wrong["payment"] = f"{sale.payment} needs the setting {setting} on this server"
        return Contradiction(wrong) if wrong else None

    def _foreign_checkout(self, sale: Sale) -> Contradiction | None:
        if sale.checkout_url is None or origin_of(sale.checkout_url) in self._origins:
            return None
        return Contradiction({"checkout_url": "must have an origin of the setting HOLDFAST_ALLOWED_ORIGINS"})

    def _insert(self, connection: Connection, wanted: Sale) -> Created | Refusal | Contradiction:
        drop = None if wanted.drop_id is None else lock_drop(connection, wanted.drop_id)
        if drop is None and wanted.drop_id is not None:
            return Refusal.DROP_NOT_FOUND
        given, wanted = wanted, wanted if drop is None else replace(wanted, room=drop.room)
        found = find_sale(connection, wanted.sale_id)
        if found is not None:
            return Created(found, is_new=False) if _terms(found) == _terms(wanted) else Refusal.EXISTS
        if drop is not None and (wrong := join_contradictions(drop, given)):
            return Contradiction(wrong)
        if drop is not None and count_sales(connection, drop.drop_id) >= SALES_MAX:
            return Refusal.DROP_FULL
        now = self._database.now_ms(connection)
        # No server may still see the previous sale as open when the pool opens for this one.
        if is_in_sale(connection, wanted.sku_id, now - SETTLED_BEFORE_MS):
            return Refusal.SKU_IN_SALE
        sale = replace(wanted, state=SaleState.LOADING, created_at=now, updated_at=now)
        insert_sale(connection, sale)
        self._make_room_if_wanted(connection, sale, now)
        return Created(sale)

    async def change(self, sale_id: str, changes: Mapping[str, object]) -> Sale | Refusal | Contradiction:
        def write(connection: Connection) -> Sale | Refusal | Contradiction:
            sale = lock_sale(connection, sale_id)
            if sale is None or sale.state is SaleState.CLOSED:
                return Refusal.NOT_FOUND if sale is None else Refusal.ENDED
            now = self._database.now_ms(connection)
            changed = replace(sale, **changes)
            new = {name: value for name, value in asdict(changed).items() if value != getattr(sale, name)}
            if sale.drop_id is not None and (wrong := _changes_of_drop(connection, sale, changed)):
                return Contradiction(wrong)
            if sale.drop_id is None and self._changes_order(connection, sale, changed.room, now):
                return Refusal.ORDER_FIXED
            return self._refuse(sale, changed, new, now) or self._update(connection, sale, changed, new, now)

        return await self._enforced(await self._database.write(write))

    def _changes_order(self, connection: Connection, sale: Sale, wanted: Room, now: int) -> bool:
        """Whether people would be served in another order than the one they joined for, even if the room was off
        meanwhile. Before anyone has joined: whether it comes so late that some servers may not see it in time."""
        mode, room = wanted.mode, lock_room(connection, sale.sale_id)
        if room is not None and room.joined and wanted.beacon != sale.room.beacon:
            return True
        if mode is RoomMode.OFF:
            return False
        if room is not None and room.joined:
            return mode is not _joined_for(sale, room)
        is_other = mode is not sale.room.mode and RoomMode.LOTTERY in (sale.room.mode, mode)
        return is_other and sale.starts_at <= now + SETTLED_BEFORE_MS

    def _refuse(self, sale: Sale, changed: Sale, new: Mapping[str, object], now: int) -> Refusal | Contradiction | None:
        settled_from = now + SETTLED_BEFORE_MS
        if FIXED_AT_START & new.keys() and sale.starts_at <= settled_from:
            return Refusal.STARTED
        if "starts_at" in new and changed.starts_at <= settled_from:
            return Contradiction({"starts_at": f"must be more than {SETTLED_BEFORE_MS // 1000} s from now"})
        if "ends_at" in new and changed.ends_at is not None and changed.ends_at <= now:
            return Contradiction({"ends_at": "must be in the future; POST …/close ends a sale now"})
        # An origin may have left the settings since: that must not stop other changes.
        foreign = self._foreign_checkout(changed) if "checkout_url" in new else None
        return foreign or self._contradictions(changed)

    def _update(self, connection: Connection, sale: Sale, changed: Sale, new: Mapping[str, object], now: int) -> Sale:
        if new:
            values = {name: value for name, value in sale_values(changed).items() if name in new}
            update_sale_if(connection, sale, values, now=now)
            # First for what it was: a room of an earlier release does not have its mode yet.
            self._make_room_if_wanted(connection, sale, now)
            self._make_room_if_wanted(connection, changed, now)
        return changed

    def _make_room_if_wanted(self, connection: Connection, sale: Sale, now: int) -> None:
        """Immediately, so that the hash of the lottery's seed is published before anyone can join."""
        if sale.room.mode is not RoomMode.OFF and sale.drop_id is None:
            make_room(connection, sale.sale_id, now, self._sealer)
            update_room(connection, sale.sale_id, now, {"mode": sale.room.mode})

    async def pause(self, sale_id: str, *, paused: bool) -> Sale | Refusal | Contradiction:
        return await self.change(sale_id, {"paused": paused})

    async def close(self, sale_id: str) -> Sale | Refusal | Contradiction:
        """Close permanently. Held units can still be paid for until their deadline."""

        def write(connection: Connection) -> Sale | Refusal:
            sale = lock_sale(connection, sale_id)
            if sale is None:
                return Refusal.NOT_FOUND
            if sale.state is not SaleState.CLOSED:
                close_sale(connection, sale, self._database.now_ms(connection))
            return sale

        return await self._enforced(await self._database.write(write))

    async def restock(
        self, sale_id: str, units: int, key: str | None = None
    ) -> tuple[Sale, Verdict] | Refusal | Unrestocked:
        """Add units, or remove free ones. With a key, exactly once."""
        sale = await self._database.read(lambda c: find_sale(c, sale_id))
        if sale is None:
            return Refusal.NOT_FOUND
        if sale.state is not SaleState.READY:
            return Refusal.ENDED if sale.state is SaleState.CLOSED else Refusal.NOT_LOADED
        answer = await self._restocking.restock(sale, units, key)
        return answer if isinstance(answer, Unrestocked) else (sale, answer)

    async def _enforced(self, found: Sale | Refusal | Contradiction) -> Sale | Refusal | Contradiction:
        return await self._loader.enforce(found) if isinstance(found, Sale) else found


def _changes_of_drop(connection: Connection, sale: Sale, changed: Sale) -> dict[str, str]:
    """What cannot change of a sale that is part of a drop, by field."""
    assert sale.drop_id is not None
    drop = find_drop(connection, sale.drop_id)
    assert drop is not None
    same_room = replace(changed, room=Room() if changed.room == sale.room else changed.room)
    return join_contradictions(drop, same_room)


def _terms(sale: Sale) -> dict[str, object]:
    return {name: value for name, value in asdict(sale).items() if name not in _STATE_FIELDS}


def close_sale(connection: Connection, sale: Sale, now: int) -> bool:
    """End the sale and record the event, unless the sale was written since it was read."""
    ends_at = now if sale.ends_at is None else min(sale.ends_at, now)
    changes: dict[str, object] = {
        "state": SaleState.CLOSED,
        "problem": None,
        "ends_at": ends_at,
        "closed_at": now,
    }
    return update_sale_if(connection, sale, changes, now=now, event="sale.closed")


def _joined_for(sale: Sale, room: RoomState) -> RoomMode | None:
    """The order that people joined for. None if a room of an earlier release, which did not keep it, is switched off
    and nobody was called: then it cannot be known, and no order is right."""
    if room.mode is not None:
        return RoomMode(room.mode)
    if sale.room.mode is not RoomMode.OFF:
        return sale.room.mode
    if room.entrants is not None:
        return RoomMode.LOTTERY
    return RoomMode.FIFO if room.serving else None
