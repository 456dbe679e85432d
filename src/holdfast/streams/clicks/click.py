"""A click: one step of a visitor of a sale."""

import re
from collections.abc import Callable
from hashlib import blake2b

from msgspec import Struct

from holdfast.domain.stock.reservation import sku_of

VIEW, JOIN, POLL, PASS, ATTEMPT, PAY, LEAVE, REFUSAL = (
    "view", "join", "poll", "pass", "attempt", "pay", "leave", "refusal",
)  # fmt: skip
# In the order in which a buyer takes them.
STEPS = (VIEW, JOIN, PASS, ATTEMPT, PAY)

# Steps that a visitor takes by calling an endpoint. The first value of its path is the sale, or a reservation.
KINDS = {
    "storefront": VIEW, "get_sale": VIEW, "join": JOIN, "status": POLL, "now": POLL, "admission": PASS,
    "purchase": ATTEMPT, "confirm": PAY, "cancel": LEAVE, "leave": LEAVE,
}  # fmt: skip
# A place in line is polled until its turn has come.
_NOT_YET = 202
_REASON = re.compile(rb'"reason":"(\w+)"')


class Click(Struct, frozen=True):
    """`visitor` is a pseudonym of the buyer, empty if nobody was signed in. `step` is what was refused."""

    at: int
    sale_id: str
    kind: str
    visitor: str
    step: str
    reason: str
    status: int


class Noted(Struct, frozen=True, gc=False):
    """The data of a request that is kept until it is written."""

    at: int
    kind: str
    sale_id: str
    buyer_id: str | None
    status: int
    body: bytes


class Naming:
    """Turns notes into clicks. The pseudonym is the same on all servers, and reveals nothing without the key."""

    def __init__(self, key: bytes, is_sale: Callable[[str], bool], sale_of_sku: Callable[[str], str | None]) -> None:
        self._key = _visitor_key(key)
        self._is_sale, self._sale_of_sku = is_sale, sale_of_sku

    def sale_of(self, subject: str) -> str | None:
        """None for an unknown sale or reservation: the path may contain any text."""
        sku_id = sku_of(subject)
        if sku_id is not None:
            return self._sale_of_sku(sku_id)
        return subject if self._is_sale(subject) else None

    def click(self, noted: Noted) -> Click:
        sale_id = noted.sale_id
        visitor = "" if noted.buyer_id is None else self._pseudonym(noted.buyer_id)
        if noted.status >= 400:
            found = _REASON.search(noted.body)
            reason = "" if found is None else found[1].decode()
            return Click(noted.at, sale_id, REFUSAL, visitor, noted.kind, reason, noted.status)
        kind = POLL if noted.kind == PASS and noted.status == _NOT_YET else noted.kind
        return Click(noted.at, sale_id, kind, visitor, kind, "", noted.status)

    def _pseudonym(self, buyer_id: str) -> str:
        return _pseudonym(self._key, buyer_id)


def visitor_of(key: bytes, buyer_id: str) -> str:
    """The buyer's pseudonym, the same that `Naming` gives with this key."""
    return _pseudonym(_visitor_key(key), buyer_id)


def _visitor_key(key: bytes) -> bytes:
    return blake2b(key, digest_size=32).digest()


def _pseudonym(key: bytes, buyer_id: str) -> str:
    return blake2b(buyer_id.encode(), key=key, digest_size=12).hexdigest()
