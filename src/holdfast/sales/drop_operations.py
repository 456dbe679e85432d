"""The operations on a drop: create and change it. Sales join it when they are created (`operations.py`)."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from holdfast.domain.sale.drop import Drop, drop_contradictions
from holdfast.domain.sale.sale import Room, RoomMode
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import lock_room, make_room, update_room
from holdfast.ledger.sales.drops import (
    change_rooms,
    count_sales,
    find_drop,
    insert_drop,
    lock_drop,
    sales_of_drops,
    update_drop,
)
from holdfast.runtime.sealing import Sealer
from holdfast.sales.operations import SETTLED_BEFORE_MS, Contradiction, Refusal

_STATE_FIELDS = {"created_at", "updated_at", "limit_lowered_at"}


class CreatedDrop(Struct, frozen=True):
    drop: Drop
    is_new: bool = True


class DropOperations:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    async def create(self, wanted: Drop) -> CreatedDrop | Refusal | Contradiction:
        if wrong := drop_contradictions(wanted):
            return Contradiction(wrong)
        try:
            return await self._database.write(lambda c: self._insert(c, wanted))
        except IntegrityError:
            # A concurrent request created one. It is visible now.
            return await self._database.write(lambda c: self._insert(c, wanted))

    def _insert(self, connection: Connection, wanted: Drop) -> CreatedDrop | Refusal:
        found = find_drop(connection, wanted.drop_id)
        if found is not None:
            return CreatedDrop(found, is_new=False) if _terms(found) == _terms(wanted) else Refusal.DROP_EXISTS
        now = self._database.now_ms(connection)
        drop = replace(wanted, created_at=now, updated_at=now)
        insert_drop(connection, drop)
        self._make_room_if_wanted(connection, drop, now)
        return CreatedDrop(drop)

    async def change(self, drop_id: str, changes: Mapping[str, object]) -> Drop | Refusal | Contradiction:
        def write(connection: Connection) -> Drop | Refusal | Contradiction:
            drop = lock_drop(connection, drop_id)
            if drop is None:
                return Refusal.DROP_NOT_FOUND
            now = self._database.now_ms(connection)
            changed = replace(drop, **changes)
            new = {name for name, value in asdict(changed).items() if value != getattr(drop, name)}
            refused = self._refuse(connection, drop, changed, new, now)
            return refused or self._update(connection, drop, changed, new, now)

        return await self._database.write(write)

    def _refuse(
        self, connection: Connection, drop: Drop, changed: Drop, new: set[str], now: int
    ) -> Refusal | Contradiction | None:
        settled_from = now + SETTLED_BEFORE_MS
        if "starts_at" in new and min(drop.starts_at, changed.starts_at) <= settled_from:
            is_started = drop.starts_at <= settled_from
            soonest = f"must be more than {SETTLED_BEFORE_MS // 1000} s from now"
            return Refusal.STARTED if is_started else Contradiction({"starts_at": soonest})
        if "starts_at" in new and any(
            sale.starts_at < changed.starts_at for sale in sales_of_drops(connection, [drop.drop_id])[drop.drop_id]
        ):
            return Contradiction({"starts_at": "must not be after the start of any of its sales"})
        if "room" in new and self._changes_order(connection, drop, changed.room, settled_from):
            return Refusal.ORDER_FIXED
        is_new_limit = drop.per_buyer_limit is None and changed.per_buyer_limit is not None
        if is_new_limit and count_sales(connection, drop.drop_id):
            return Contradiction({"per_buyer_limit": "cannot be introduced once the drop has sales"})
        wrong = drop_contradictions(changed)
        return Contradiction(wrong) if wrong else None

    def _changes_order(self, connection: Connection, drop: Drop, wanted: Room, settled_from: int) -> bool:
        """Whether people would be served in another order than the one they joined for; or it comes so late that some
        servers may not see it in time. Within these bounds, the pace may change at any time."""
        if (wanted.mode, wanted.beacon) == (drop.room.mode, drop.room.beacon):
            return False
        room = lock_room(connection, drop.line_id)
        return (room is not None and room.joined > 0) or drop.starts_at <= settled_from

    def _update(self, connection: Connection, drop: Drop, changed: Drop, new: set[str], now: int) -> Drop:
        if not new:
            return drop
        before, after = drop.per_buyer_limit, changed.per_buyer_limit
        is_lowered = after is not None and (before is None or after < before)
        lowered_at = now if is_lowered else drop.limit_lowered_at
        # Two writes within a millisecond must not look like one.
        changed = replace(changed, updated_at=max(now, drop.updated_at + 1), limit_lowered_at=lowered_at)
        update_drop(connection, changed, {*new, "limit_lowered_at"}, now)
        if "room" in new:
            change_rooms(connection, changed, now)
            self._make_room_if_wanted(connection, changed, now)
        return changed

    def _make_room_if_wanted(self, connection: Connection, drop: Drop, now: int) -> None:
        """Immediately, so that the hash of the lottery's seed is published before anyone can join."""
        if drop.room.mode is not RoomMode.OFF:
            make_room(connection, drop.line_id, now, self._sealer)
            update_room(connection, drop.line_id, now, {"mode": drop.room.mode})


def _terms(drop: Drop) -> dict[str, object]:
    return {name: value for name, value in asdict(drop).items() if name not in _STATE_FIELDS}
