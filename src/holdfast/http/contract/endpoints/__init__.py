"""The endpoint table: each URL is declared once, in the file of its resource. All of http may import it."""

from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints import (
    console,
    inventory,
    money,
    operate,
    pages,
    purchase,
    reservations,
    room,
    sales,
    team,
    webhooks,
)

# In the order in which the reference page shows them.
_RESOURCES = (inventory, sales, purchase, room, reservations, money, operate, team, webhooks, console, pages)

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    declared for resource in _RESOURCES for declared in vars(resource).values() if isinstance(declared, Endpoint)
)
