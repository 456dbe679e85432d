"""The hot endpoints of sales in the OpenAPI document."""

from typing import Any

import msgspec
from pydantic import BaseModel

from holdfast.domain.pool import SKU_PATTERN
from holdfast.http.challenge_schemas import ChallengeOut
from holdfast.http.sale_schemas import NowOut, PurchaseIn, PurchaseOut
from holdfast.http.schemas import IdempotencyKey

_REF = "#/components/schemas/{model}"
PUBLIC = {(f"/v1/sales/{{sale_id}}{rest}", "get") for rest in ("", "/now", "/challenge")}
PUBLIC.add(("/.well-known/jwks.json", "get"))
_EVENTS = """\
id: 17
event: reservation.settling
data: {"reservation_id":"rsv_…","type":"reservation.settling","at":"2030-01-31T18:00:02.000Z",…}
"""


def add_sale_lane(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    _, structs = msgspec.json.schema_components([PurchaseIn], ref_template=_REF.replace("model", "name"))
    schemas.update(structs)
    add_models(document, PurchaseOut, NowOut, ChallengeOut)
    document["paths"]["/v1/sales/{sale_id}/purchase"] = {"post": _purchase()}
    document["paths"]["/v1/sales/{sale_id}/now"] = {"get": _now()}
    document["paths"]["/v1/sales/{sale_id}/challenge"] = {"get": _challenge()}
    document["paths"]["/v1/reservations/{reservation_id}/events"] = {"get": _events()}


def add_models(document: dict[str, Any], *models: type[BaseModel]) -> None:
    for model in models:
        schema = model.model_json_schema(ref_template=_REF)
        document["components"]["schemas"].update(schema.pop("$defs", {}) | {model.__name__: schema})


def sale_id() -> dict[str, Any]:
    return {"name": "sale_id", "in": "path", "required": True, "schema": {"type": "string", "pattern": SKU_PATTERN}}


def header(name: str, description: str, *, required: bool = False, schema: Any = None) -> dict[str, Any]:
    given = schema or {"type": "string"}
    return {"name": name, "in": "header", "required": required, "description": description, "schema": given}


def json_of(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model)}}}


def _purchase() -> dict[str, Any]:
    replayed = {"description": "`true` if this is the first answer again.", "schema": {"type": "string"}}
    key = msgspec.json.schema(IdempotencyKey)
    return {
        "tags": ["sales"],
        "summary": "Buy: hold units, or pay for them at once",
        "operationId": "purchase",
        # Whose token the example shows.
        "x-caller": "buyer",
        "description": "For buyers. Where checkout is instant, the payment begins at once.",
        "parameters": [
            sale_id(),
            header("Idempotency-Key", "A new one for each purchase.", required=True, schema=key),
            header("Holdfast-Pass", "Where the sale has a waiting room."),
        ],
        "requestBody": {"required": True, "content": json_of("PurchaseIn")},
        "responses": {
            "201": {"description": "Reserved, and on disk", "content": json_of("PurchaseOut")},
            "200": {
                "description": "The first answer again",
                "content": json_of("PurchaseOut"),
                "headers": {"Idempotency-Replayed": replayed},
            },
        },
    }


def _now() -> dict[str, Any]:
    return {
        "tags": ["sales"],
        "summary": "How the sale stands now",
        "operationId": "now",
        "description": "Public, the same for everyone, and cacheable for a second.",
        "parameters": [sale_id(), header("If-None-Match", "The ETag of an earlier answer.")],
        "responses": {
            "200": {"description": "The sale now", "content": json_of("NowOut")},
            "304": {"description": "As in the answer with this ETag"},
        },
    }


def _challenge() -> dict[str, Any]:
    return {
        "tags": ["sales"],
        "summary": "A challenge to solve before joining",
        "operationId": "challenge",
        "description": "Public; ALTCHA's clients solve it, and the join takes the solution as `proof`. With a buyer's "
        "token it is for that buyer alone. It lives for two minutes and is good for one join.",
        "parameters": [sale_id()],
        "responses": {
            "200": {"description": "A new challenge", "content": json_of("ChallengeOut")},
            "204": {"description": "This sale asks for no proof"},
        },
    }


def _events() -> dict[str, Any]:
    reservation_id = {
        "name": "reservation_id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    }
    return {
        "tags": ["reservations"],
        "summary": "What happens to it, as it happens",
        "operationId": "events",
        "description": "Server-sent events: all so far, then each state change. Streams end after a minute at most; "
        "connect again with `Last-Event-ID`.",
        "parameters": [reservation_id, header("Last-Event-ID", "The id of the last event that was seen.")],
        "responses": {
            "200": {
                "description": "A stream of events",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS}},
            },
            "204": {"description": "It has ended, and everything was seen"},
        },
    }
