"""All tables together, to create or compare them."""

from holdfast.ledger.tables import (
    access,
    chain,
    compatibility,
    heartbeats,
    incarnations,
    money,
    room,
    sales,
    stock,
    streams,
    webhooks,
)
from holdfast.ledger.tables.columns import metadata

__all__ = [
    "access",
    "chain",
    "compatibility",
    "heartbeats",
    "incarnations",
    "metadata",
    "money",
    "room",
    "sales",
    "stock",
    "streams",
    "webhooks",
]
