"""A drop: several sales with one waiting line, one pass for all of them, and a limit per buyer across them."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale, SaleState, line_id_of

SALES_MAX = 50


class Drop(Struct, frozen=True, kw_only=True):
    drop_id: str
    name: str
    # When its line opens. Its sales start then or later.
    starts_at: int
    # Units that a buyer may hold or have bought in all of its sales together.
    per_buyer_limit: int | None = None
    room: Room = Room()
    created_at: int = 0
    updated_at: int = 0
    limit_lowered_at: int | None = None

    @property
    def line_id(self) -> str:
        return line_id_of(self.drop_id)


def drop_contradictions(drop: Drop) -> dict[str, str]:
    """Contradictory values, by field. Empty if the drop is valid."""
    is_drawn = drop.room.mode is RoomMode.LOTTERY
    return {} if drop.room.beacon is None or is_drawn else {"room.beacon": "needs the mode lottery"}


def join_contradictions(drop: Drop, sale: Sale) -> dict[str, str]:
    """Why a sale cannot be part of a drop, by field."""
    found = {}
    if sale.room != Room():
        found["room"] = "must be left out in a drop, which has one room for all of its sales"
    if sale.starts_at < drop.starts_at:
        found["starts_at"] = "must not be before the start of the drop"
    if sale.proof_of_work is not None:
        found["proof_of_work"] = "must be left out in a drop"
    return found


def line_of(drop: Drop, sales: Sequence[Sale]) -> Sale:
    """The sale that the line of a drop is for: its sales merged into one."""
    live = [sale for sale in sales if sale.state is not SaleState.CLOSED]
    ends = [sale.ends_at for sale in live if sale.ends_at is not None]
    limits = [sale.per_buyer_limit for sale in sales if sale.per_buyer_limit is not None]
    return Sale(
        sale_id=drop.line_id,
        sku_id=drop.line_id,
        name=drop.name,
        price_amount=0,
        currency="EUR",
        starts_at=drop.starts_at,
        ends_at=max(ends) if live and len(ends) == len(live) else None,
        checkout=Checkout.CART,
        payment=PaymentKind.EXTERNAL,
        loaded_units=sum(sale.loaded_units for sale in sales),
        per_buyer_limit=drop.per_buyer_limit if drop.per_buyer_limit is not None else min(limits, default=None),
        room=drop.room,
        state=SaleState.READY if live else SaleState.CLOSED,
        # While none of them sells, nobody is called.
        paused=bool(live) and all(sale.paused or sale.state is SaleState.LOADING for sale in live),
        drop_id=drop.drop_id,
        created_at=drop.created_at,
        updated_at=max([drop.updated_at, *(sale.updated_at for sale in sales)]),
    )
