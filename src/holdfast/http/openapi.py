"""One OpenAPI document for both lanes."""

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from holdfast.domain.pool import SKU_PATTERN
from holdfast.http.openapi_room import add_room_lane
from holdfast.http.openapi_sales import PUBLIC, add_sale_lane
from holdfast.http.schemas import IdempotencyKey, ProblemOut, ReserveIn

_DESCRIPTION = """Time-bounded reservations on a limited stock, decided in batches and durable before they are granted.

Every refusal is `application/problem+json` with a stable `reason`. `429` and `503` carry `Retry-After`.
"""
_PROBLEMS = {
    "400": "The body is not JSON",
    "401": "No or wrong credentials",
    "403": "Not allowed for these credentials",
    "404": "No such thing, for this caller",
    "408": "The body arrived too slowly",
    "409": "Refused, for the reason given",
    "413": "The body is too large",
    "422": "The request is not valid",
    "429": "Too often, or it is not your turn yet",
    "431": "The headers are too large",
    "503": "Busy or not ready; retry",
}
_REF = "#/components/schemas/{model}"
_PUBLIC = ("/healthz/", "/v1/payments/")


def describe(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes)
        _add_fast_lane(document)
        add_sale_lane(document)
        add_room_lane(document)
        _add_security(document)
        _add_problems(document)
        app.openapi_schema = document
    return app.openapi_schema


def _add_fast_lane(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {}).setdefault("schemas", {})
    problem = ProblemOut.model_json_schema(ref_template=_REF)
    _, structs = msgspec.json.schema_components([ReserveIn], ref_template=_REF.replace("model", "name"))
    components.update(structs | problem.pop("$defs") | {"ProblemOut": problem})
    sku_id = {"name": "sku_id", "in": "path", "required": True, "schema": {"type": "string", "pattern": SKU_PATTERN}}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The idempotency key, if the body has none. Both may be given if they are the same.",
        "schema": msgspec.json.schema(IdempotencyKey),
    }
    replayed = {"description": "`true` if this is the first answer again.", "schema": {"type": "string"}}
    receipt = {
        "description": "Where Redis is the gate: proof that this was granted, to be sent back in the same header.",
        "schema": {"type": "string"},
    }
    document["paths"]["/v1/inventory/{sku_id}/reserve"] = {
        "post": {
            "tags": ["inventory"],
            "summary": "Hold units for an owner until a deadline",
            "operationId": "reserve",
            "parameters": [sku_id, key],
            "requestBody": {"required": True, "content": _json("ReserveIn")},
            "responses": {
                "200": {
                    "description": "Held, and on disk",
                    "content": _json("ReservationOut"),
                    "headers": {"Idempotency-Replayed": replayed, "Holdfast-Receipt": receipt},
                }
            },
        }
    }
    document["paths"]["/v1/inventory/{sku_id}/available"] = {
        "get": {
            "tags": ["inventory"],
            "summary": "How many units are free, held and sold",
            "operationId": "available",
            "parameters": [sku_id],
            "responses": {"200": {"description": "The pool now", "content": _json("PoolOut")}},
        }
    }


def _json(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}}


def _add_security(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A service key (`hf_…`) or a buyer's JWT."}
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            is_public = path.startswith(_PUBLIC) or (path, method) in PUBLIC
            operation["security"] = [] if is_public else [{"bearer": []}]


def _add_problems(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, description in _PROBLEMS.items():
                operation["responses"][status] = {"description": description, "content": content}
