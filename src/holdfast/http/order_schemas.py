"""Orders, as the contract has them."""

from typing import Annotated, Any

from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from holdfast.domain.sale import Order, OrderStatus, PaymentKind
from holdfast.http.sale_schemas import SaleId
from holdfast.http.schemas import OwnerId, Timestamp
from holdfast.http.times import rfc3339
from holdfast.ledger.sale_lists import ORDERS_SHOWN, ListedOrders

ORDER_ID_PATTERN = r"^ord_[0-9a-f]{32}$"


class OrderQuery(BaseModel):
    """Filters are for service keys; a buyer sees their own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    buyer_id: OwnerId | None = None
    sale_id: SaleId | None = None
    to_source: bool = Field(default=False, description="Only those that wait for units that somebody has to find.")
    limit: int = Field(default=ORDERS_SHOWN, ge=1, le=100)
    starting_after: Annotated[str, StringConstraints(pattern=ORDER_ID_PATTERN)] | None = Field(
        default=None, description="The last order id of the page before."
    )


class OrderOut(BaseModel):
    order_id: str
    reservation_id: str
    sale_id: str
    buyer_id: str
    quantity: int
    amount: int
    refunded_amount: int
    currency: str
    status: OrderStatus
    payment: PaymentKind = Field(description="Who moved the money; `external` where a service key confirmed.")
    units_to_source: int = Field(description="Units of it that were sold and are not there: somebody has to find them.")
    created_at: Timestamp


class OrderPage(BaseModel):
    data: list[OrderOut]
    has_more: bool


def order_page_body(listed: ListedOrders) -> dict[str, Any]:
    found, has_more = listed
    return {"data": [order_body(order) for order in found], "has_more": has_more}


def order_body(order: Order) -> dict[str, Any]:
    return structs.asdict(order) | {"created_at": rfc3339(order.created_at)}
