"""All tables together, to create or compare them."""

from holdfast.ledger.tables import (
    access,
    cells,
    chain,
    compatibility,
    heartbeats,
    incarnations,
    messages,
    money,
    outages,
    refusals,
    room,
    sales,
    stock,
    streams,
    traces,
    webhooks,
)
from holdfast.ledger.tables.columns import metadata

__all__ = [
    "access",
    "cells",
    "chain",
    "compatibility",
    "heartbeats",
    "incarnations",
    "messages",
    "metadata",
    "money",
    "outages",
    "refusals",
    "room",
    "sales",
    "stock",
    "streams",
    "traces",
    "webhooks",
]
