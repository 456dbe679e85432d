"""The waiting room's endpoints in the OpenAPI document."""

from typing import Any

import msgspec

from holdfast.http.openapi_sales import add_models, header, json_of, sale_id
from holdfast.http.room_schemas import JoinIn, PassOut, PlaceOut, WaitOut


def add_room_lane(document: dict[str, Any]) -> None:
    _, structs = msgspec.json.schema_components([JoinIn], ref_template="#/components/schemas/{name}")
    document["components"]["schemas"].update(structs)
    add_models(document, PlaceOut, PassOut, WaitOut)
    paths = document["paths"]
    paths["/v1/sales/{sale_id}/queue"] = {"post": _join(), "delete": _leave()}
    paths["/v1/sales/{sale_id}/queue/status"] = {"get": _status()}
    paths["/v1/sales/{sale_id}/admission"] = {"post": _admission()}


def _operation(name: str, summary: str, description: str, *, with_ticket: bool = True) -> dict[str, Any]:
    ticket = header("Holdfast-Ticket", "As it came with the answer to joining.", required=True)
    return {
        "tags": ["sales"],
        "summary": summary,
        "operationId": name,
        # Whose token the example shows.
        "x-caller": "buyer",
        "description": description,
        "parameters": [sale_id(), ticket] if with_ticket else [sale_id()],
    }


def _join() -> dict[str, Any]:
    text = "For buyers. One place for each: joining again returns the same one, with a fresh ticket."
    return _operation("join", "Get in line", text, with_ticket=False) | {
        "requestBody": {"required": False, "content": json_of("JoinIn")},
        "responses": {"200": {"description": "Your place, on disk", "content": json_of("PlaceOut")}},
    }


def _leave() -> dict[str, Any]:
    text = "The place is given up. Who joins again stands at the end."
    return _operation("leave", "Leave the line", text) | {"responses": {"204": {"description": "Left"}}}


def _status() -> dict[str, Any]:
    text = "Rarely needed: /now tells `serving` to everyone, and caches answer it."
    return _operation("status", "Look at your place", text) | {
        "responses": {"200": {"description": "Your place now", "content": json_of("PlaceOut")}}
    }


def _admission() -> dict[str, Any]:
    text = "When position ≤ serving. Asked again, the same pass comes as long as it lasts."
    return _operation("admission", "Ask for a pass", text) | {
        "responses": {
            "200": {"description": "Your pass", "content": json_of("PassOut")},
            "202": {"description": "Not your turn yet", "content": json_of("WaitOut")},
        }
    }
