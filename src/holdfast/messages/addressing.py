"""The channels in use, and each buyer's address in them."""

from collections.abc import Collection

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.ledger.messages.contacts import find_contacts
from holdfast.ledger.messages.devices import devices_of
from holdfast.ledger.messages.message_log import MAIL, PUSH


class Target(Struct, frozen=True):
    channel: str
    # The device, for channels in which a buyer may have several.
    device: str = ""


class Addresses:
    def __init__(self, *, has_mail: bool, has_push: bool = False) -> None:
        self._has_mail, self._has_push = has_mail, has_push

    def of(self, connection: Connection, buyer_ids: Collection[str]) -> dict[str, list[Target]]:
        people = find_contacts(connection, buyer_ids)
        devices = devices_of(connection, people) if self._has_push else {}
        found = dict[str, list[Target]]()
        for buyer_id, one in people.items():
            by_mail = [Target(MAIL)] if self._has_mail and one.email is not None else []
            found[buyer_id] = by_mail + [Target(PUSH, device_id) for device_id in devices.get(buyer_id, ())]
        return found
