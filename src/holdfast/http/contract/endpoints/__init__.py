"""The endpoint table: each URL is declared once, in the file of its resource. All of http may import it."""

from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints import (
    console,
    drops,
    inventory,
    messages,
    money,
    operate,
    pages,
    purchase,
    reservations,
    revocations,
    room,
    sales,
    team,
    webhooks,
)

# In the order in which the reference page shows them.
_RESOURCES = (
    inventory, sales, drops, purchase, room, reservations, money, operate, team, revocations, webhooks,
    messages, console, pages,
)  # fmt: skip

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    declared for resource in _RESOURCES for declared in vars(resource).values() if isinstance(declared, Endpoint)
)
