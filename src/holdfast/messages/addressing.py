"""The channels in use, and where each buyer is reached by them."""

from collections.abc import Collection

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.ledger.messages.contacts import find_contacts
from holdfast.ledger.messages.message_log import MAIL


class Target(Struct, frozen=True):
    channel: str
    # Which device, where there may be several.
    device: str = ""


class Addresses:
    def __init__(self, *, has_mail: bool) -> None:
        self._has_mail = has_mail

    def of(self, connection: Connection, buyer_ids: Collection[str]) -> dict[str, list[Target]]:
        people = find_contacts(connection, buyer_ids) if self._has_mail else {}
        return {buyer_id: [Target(MAIL)] for buyer_id, one in people.items() if one.email is not None}
