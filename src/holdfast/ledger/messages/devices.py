"""Browsers that receive notifications. An endpoint is secret, but all that its holder can do is reach that browser."""

from collections.abc import Collection
from hashlib import sha256

from msgspec import Struct
from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.messages import push_devices

# The maximum per buyer; the oldest are removed.
DEVICES_MAX = 10
_NAMED_MAX = 500


class Device(Struct, frozen=True):
    """`browser_key` and `auth`: in base64url, as the browser gives them."""

    device_id: str
    buyer_id: str
    endpoint: str
    browser_key: str
    auth: str


def device_id_of(endpoint: str) -> str:
    return f"dev_{sha256(endpoint.encode()).hexdigest()[:32]}"


def put_device(connection: Connection, device: Device, now: int) -> None:
    """A browser that another buyer used before is reassigned to this one."""
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    values = {"buyer_id": device.buyer_id, "browser_key": device.browser_key, "auth": device.auth, "created_at": now}
    made = insert(push_devices).values(device_id=device.device_id, endpoint=device.endpoint, **values)
    connection.execute(made.on_conflict_do_update(index_elements=[push_devices.c.device_id], set_=values))
    theirs = select(push_devices.c.device_id).where(push_devices.c.buyer_id == device.buyer_id)
    kept = theirs.order_by(push_devices.c.created_at.desc(), push_devices.c.device_id).limit(DEVICES_MAX)
    old = push_devices.c.device_id.not_in(list(connection.execute(kept).scalars()))
    connection.execute(delete(push_devices).where(push_devices.c.buyer_id == device.buyer_id, old))


def count_devices(connection: Connection, buyer_id: str) -> int:
    query = select(func.count()).select_from(push_devices).where(push_devices.c.buyer_id == buyer_id)
    return int(connection.execute(query).scalar_one())


def devices_of(connection: Connection, buyer_ids: Collection[str]) -> dict[str, list[str]]:
    """Their IDs, by buyer."""
    wanted, found = sorted(set(buyer_ids)), dict[str, list[str]]()
    for at in range(0, len(wanted), _NAMED_MAX):
        columns = (push_devices.c.buyer_id, push_devices.c.device_id)
        query = select(*columns).where(push_devices.c.buyer_id.in_(wanted[at : at + _NAMED_MAX]))
        for buyer_id, device_id in connection.execute(query.order_by(push_devices.c.device_id)):
            found.setdefault(buyer_id, []).append(device_id)
    return found


def find_device(connection: Connection, device_id: str, buyer_id: str) -> Device | None:
    """None if it does not exist, or now belongs to another buyer."""
    columns = [push_devices.c[name] for name in Device.__struct_fields__]
    is_it = (push_devices.c.device_id == device_id, push_devices.c.buyer_id == buyer_id)
    row = connection.execute(select(*columns).where(*is_it)).one_or_none()
    return None if row is None else Device(*row)


def delete_devices(connection: Connection, *, buyer_id: str) -> None:
    connection.execute(delete(push_devices).where(push_devices.c.buyer_id == buyer_id))


def delete_device(connection: Connection, device_id: str) -> None:
    connection.execute(delete(push_devices).where(push_devices.c.device_id == device_id))
