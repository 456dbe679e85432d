"""The types of published events, and the JSON Schemas generated from them (docs/events/, by `make docs`).

Tests check every published event against its schema. Fields may be added, so other fields are allowed.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.domain.stock.event_type import EventType
from holdfast.ledger.events.cloud_event import SOURCE
from holdfast.ledger.events.dead_letters import DEAD_LETTERS, PARKED, RELEASED
from holdfast.ledger.events.stream_messages import EVENTS, INTENT, INTENTS

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Units = Annotated[int, Meta(ge=0)]


class ReservationData(Struct):
    """The reservation as of the event."""

    reservation_id: str
    sku_id: str
    sale_id: str | None
    owner_id: Annotated[str | None, Meta(description="Null if the reservation was pruned since.")]
    quantity: Annotated[int, Meta(ge=1)] | None
    status: Literal["active", "settling", "confirmed", "failed", "cancelled", "expired"]
    expires_at: Moment | None


class FailedReservationData(ReservationData):
    failure_reason: Annotated[str | None, Meta(description="Why the payment failed.")]


class DeclinedData(Struct):
    """A payment that was declined. The units stay with the buyer until the deadline, if another attempt is left."""

    reservation_id: str
    sku_id: str
    sale_id: str
    buyer_id: str
    quantity: Annotated[int, Meta(ge=1)] | None
    attempt: Annotated[int, Meta(ge=1, description="Which payment for the reservation it was.")]
    amount: Annotated[int, Meta(ge=0, description="In the currency's smallest unit.")]
    currency: str
    reason: Annotated[str | None, Meta(description="insufficient_funds, card_declined, …")]
    expires_at: Moment | None


class RefundData(Struct):
    refund_id: str
    amount: Annotated[int, Meta(ge=0, description="In the currency's smallest unit.")]
    currency: str
    restock_units: Units
    cause: str


class OrderData(Struct):
    """The order. Without one, of a payment that came too late and is refunded, only the IDs are there."""

    order_id: str | None
    reservation_id: str | None
    sale_id: str | UnsetType | None = UNSET
    buyer_id: str | UnsetType = UNSET
    quantity: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    amount: Annotated[int, Meta(ge=0, description="In the currency's smallest unit.")] | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    number: Annotated[str, Meta(description="Short and readable, as in `7K3M-QX2D-9F4T`.")] | UnsetType = UNSET
    unit_price: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    status: str | UnsetType = UNSET
    tracking: str | UnsetType | None = UNSET
    refunded_amount: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    created_at: Moment | UnsetType = UNSET
    refund: RefundData | UnsetType = UNSET


class PriceData(Struct):
    amount: Annotated[int, Meta(ge=0, description="In the currency's smallest unit.")]
    currency: str


class SaleData(Struct):
    sale_id: str
    sku_id: str
    name: str | UnsetType = UNSET
    price: PriceData | UnsetType = UNSET
    starts_at: Moment | UnsetType = UNSET
    ends_at: Moment | UnsetType | None = UNSET


class PoolData(Struct):
    """The counts when the event was encoded; those of `pool.updated` are of its time."""

    sku_id: str
    sale_id: str | None
    total_units: Units
    held: Units
    sold: Units
    available: Units


class DriftData(PoolData):
    shortfall_units: (
        Annotated[int, Meta(description="Units of the sale that were sold and cannot be delivered; 0: resolved.")]
        | UnsetType
    ) = UNSET


class IntentData(Struct):
    """A purchase to settle. The work itself is in the ledger, under the purchase's ID."""

    purchase_id: Annotated[str, Meta(description="The reservation, which is settled once however often this comes.")]
    sku_id: str
    sale_id: str
    buyer_id: Annotated[str, Meta(description="The key of the message.")]
    quantity: Annotated[int, Meta(ge=1)] | None


class ParkedData(Struct):
    """An item that needs a person: `GET /v1/ops/parked`."""

    parked_id: Annotated[str, Meta(description="The key of the message.")]
    kind: Literal["settlement", "refund", "delivery", "journal", "message"]
    reason: str | None
    attempts: Annotated[int, Meta(ge=0)]
    created_at: Moment


class ReleasedData(Struct):
    """An item that was retried or dropped."""

    parked_id: Annotated[str, Meta(description="The key of the message.")]
    kind: Literal["settlement", "refund", "delivery", "journal", "message"]


_OF_KIND: dict[str, type[Struct]] = {
    "reservation": ReservationData,
    "payment": DeclinedData,
    "order": OrderData,
    "pool": PoolData,
    "sale": SaleData,
}
_OF_TYPE: dict[str, type[Struct]] = {
    EventType.RESERVATION_FAILED: FailedReservationData,
    EventType.POOL_DRIFT: DriftData,
    INTENT: IntentData,
    PARKED: ParkedData,
    RELEASED: ReleasedData,
}
TYPES = (*EventType, INTENT, PARKED, RELEASED)
_TOPICS = {INTENT: (INTENTS, "buyer_id"), PARKED: (DEAD_LETTERS, "parked_id"), RELEASED: (DEAD_LETTERS, "parked_id")}


def data_of(event_type: str) -> type[Struct]:
    found = _OF_TYPE.get(event_type) or _OF_KIND.get(event_type.partition(".")[0])
    assert found is not None, f"{event_type} has no schema: say here what its data is"
    return found


def event_schema(event_type: str) -> dict[str, Any]:
    """The JSON Schema of an event of this type."""
    data = data_of(event_type)
    (own,), components = msgspec.json.schema_components([data], ref_template="#/$defs/{name}")
    texts = ("id", "subject")
    fixed = {"specversion": "1.0", "source": SOURCE, "type": event_type, "datacontenttype": "application/json"}
    properties: dict[str, Any] = {name: {"const": value} for name, value in fixed.items()}
    properties |= {name: {"type": "string", "minLength": 1} for name in texts}
    properties |= {"time": {"type": "string", "format": "date-time"}, "data": own}
    required = sorted(properties)
    properties["traceparent"] = {"type": "string", "description": "W3C Trace Context, if the purchase is traced."}
    topic, key = _TOPICS.get(event_type, (EVENTS, "sku_id"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": event_type,
        "description": f"CloudEvents 1.0 in JSON. Kafka: topic {topic}, key {key}.",
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "required": required,
        "$defs": components,
    }
