"""Which buyers joined a sale from which device. Each device has a few numbered slots, so that several processes cannot
give one more than there are: a slot is taken by one insert."""

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import Connection, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.room import device_accounts


class DeviceClaim(Struct, frozen=True):
    sale_id: str
    # A hash of the device's token, different in every sale.
    device: str
    buyer_id: str


_Device = tuple[str, str]


def claim_slots(connection: Connection, claims: Sequence[DeviceClaim], *, limit: int, now: int) -> list[bool]:
    """For each claim, whether the buyer is among the first `limit` of the device. A claim that loses its slot to
    another process tries the next slot."""
    taken = _taken(connection, claims)
    while wanted := _wanted(claims, taken, limit):
        add = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
        # In a fixed order, so that two processes cannot deadlock.
        rows = [{**row, "claimed_at": now} for row in sorted(wanted, key=lambda row: tuple(map(str, row.values())))]
        connection.execute(add(device_accounts).on_conflict_do_nothing(), rows)
        taken = _taken(connection, claims)
    return [claim.buyer_id in taken[claim.sale_id, claim.device].values() for claim in claims]


def _taken(connection: Connection, claims: Sequence[DeviceClaim]) -> defaultdict[_Device, dict[int, str]]:
    d = device_accounts.c
    devices = {(claim.sale_id, claim.device) for claim in claims}
    found: defaultdict[_Device, dict[int, str]] = defaultdict(dict)
    for row in connection.execute(select(device_accounts).where(tuple_(d.sale_id, d.device).in_(devices))):
        found[row.sale_id, row.device][row.slot] = row.buyer_id
    return found


def _wanted(
    claims: Sequence[DeviceClaim], taken: defaultdict[_Device, dict[int, str]], limit: int
) -> list[dict[str, object]]:
    """The rows to insert: the first free slot for each buyer who has none, as far as there are any."""
    rows: list[dict[str, object]] = []
    planned = {device: dict(slots) for device, slots in taken.items()}
    for claim in claims:
        slots = planned.setdefault((claim.sale_id, claim.device), {})
        free = next((slot for slot in range(limit) if slot not in slots), None)
        if free is not None and claim.buyer_id not in slots.values():
            slots[free] = claim.buyer_id
            names = {"sale_id": claim.sale_id, "device": claim.device, "slot": free, "buyer_id": claim.buyer_id}
            rows.append(names)
    return rows


def prune_devices(connection: Connection, older_than: int, *, limit: int) -> int:
    key = (device_accounts.c.sale_id, device_accounts.c.device, device_accounts.c.slot)
    old = select(*key).where(device_accounts.c.claimed_at < older_than).limit(limit)
    return connection.execute(delete(device_accounts).where(tuple_(*key).in_(old))).rowcount
