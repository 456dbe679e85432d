"""Service keys: made, listed and revoked by whoever operates."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Response
from pydantic import StringConstraints

from holdfast.http.console_schemas import KeyIn, NewServiceKeyOut, ServiceKeyList, key_body
from holdfast.http.problems import forbidden, key_not_found
from holdfast.http.routes.callers import AnyCaller, IdentifiedRoute, OperatorKey, TheHouse, json_response
from holdfast.ledger.keys import create_key, list_keys, revoke_key

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/ops/keys", tags=["operate"], dependencies=[OperatorKey])

KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]


@router.get("", response_model=ServiceKeyList, summary="List service keys, revoked ones included")
async def list_all(house: TheHouse) -> Response:
    """The key with every scope is not among them: it is a setting."""
    return json_response({"data": [key_body(key) for key in await house.database.read(list_keys)]})


@router.post("", status_code=201, response_model=NewServiceKeyOut, summary="Make a service key")
async def create(given: KeyIn, caller: AnyCaller, house: TheHouse) -> Response:
    """The key itself is in this answer only. Nobody can give a scope they do not have."""
    scopes = frozenset(given.scopes)
    if not scopes <= caller.scopes:
        raise forbidden(f"You cannot give what you do not have: {', '.join(sorted(scopes - caller.scopes))}.")
    database = house.database
    key, text = await database.write(lambda c: create_key(c, given.name, scopes, database.now_ms(c)))
    body = key_body(key) | {"key": text}
    return Response(msgspec.json.encode(body), 201, {"cache-control": "no-store"}, "application/json")


@router.delete("/{key_id}", status_code=204, summary="Revoke a service key")
async def revoke(key_id: KeyId, house: TheHouse) -> Response:
    """Servers stop accepting it, and end the sessions begun with it, within five seconds. Repeat: 204 again."""
    database = house.database
    if not await database.write(lambda c: revoke_key(c, key_id, database.now_ms(c))):
        raise key_not_found()
    return Response(status_code=204)
