"""The Python client against a real server: the contract suite, both ways of calling, and the ergonomics."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from contract_suite import SCENARIOS, is_time, run_scenario
from http_serving import SERVICE_KEY, Server
from http_tokens import buyer_token
from standardwebhooks import Webhook

from holdfast.client import AsyncClient, Client, InvalidSignature, WaitTimedOut, errors, problems, verify_webhook
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.problems import CATALOGUE, SIGNATURE_REFUSED
from holdfast.lab.clients.model import read_table

pytest_plugins = ("http_fixtures",)

NAMES = [scenario["name"] for scenario in SCENARIOS]


@pytest.fixture
def service(embedded: Server) -> Iterator[Client]:
    with Client(embedded.url, key=SERVICE_KEY, timeout_s=60) as client:
        yield client


def key_of(who: str) -> str | None:
    return {"service": SERVICE_KEY, "anyone": None}.get(who, buyer_token(who))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=NAMES)
def test_the_contract_suite_passes(embedded: Server, scenario: dict[str, Any]) -> None:
    def call(who: str, name: str, path: list[str], args: dict[str, Any]) -> Any:
        with Client(embedded.url, key=key_of(who), timeout_s=60) as client:
            found = getattr(client, name)(*path, **args)
            return list(found) if isinstance(found, Iterator) else found

    run_scenario(scenario, uuid4().hex[:8], call)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=NAMES)
def test_the_contract_suite_passes_with_asyncio(embedded: Server, scenario: dict[str, Any]) -> None:
    async def ask(who: str, name: str, path: list[str], args: dict[str, Any]) -> Any:
        async with AsyncClient(embedded.url, key=key_of(who), timeout_s=60) as client:
            found = getattr(client, name)(*path, **args)
            return [one async for one in found] if isinstance(found, AsyncIterator) else await found

    run_scenario(scenario, uuid4().hex[:8], lambda *call: asyncio.run(ask(*call)))


def test_every_operation_of_the_table_has_a_method() -> None:
    declared = {e.operation_id for e in ENDPOINTS if e.is_documented and SIGNATURE_REFUSED not in e.problems}
    operations = read_table().operations
    assert {operation.endpoint.operation_id for operation in operations} == declared
    for operation in operations:
        for client in (Client, AsyncClient):
            parameters = inspect.signature(getattr(client, operation.name)).parameters
            assert [*parameters][: len(operation.endpoint.path_parameters) + 1] == [
                "self",
                *operation.endpoint.path_parameters,
            ]


def test_every_reason_has_a_class_below_that_of_its_status() -> None:
    assert set(CATALOGUE) == set(errors.BY_REASON)
    assert issubclass(problems.SoldOut, errors.Conflict)
    assert issubclass(problems.Busy, errors.ServerProblem)


def test_a_method_tells_its_parameters_and_what_it_does() -> None:
    assert Client.reserve.__doc__ == "Hold units for an owner until a deadline."
    assert "owner_id" in inspect.signature(Client("http://localhost").reserve).parameters


def test_answers_are_typed(service: Client) -> None:
    sku_id = f"sku-{uuid4().hex[:8]}"
    service.create_pool(sku_id, total_units=3)
    held = service.reserve(sku_id, owner_id="ada", quantity=2)
    assert is_time(held.expires_at)
    assert held.expires_at - held.created_at == timedelta(seconds=300)
    assert service.get_history(held.reservation_id).events[0].type == "reservation.created"
    assert "holdfast_" in service.metrics()


def test_the_events_of_a_reservation_are_read_as_they_come(service: Client) -> None:
    sku_id = f"sku-{uuid4().hex[:8]}"
    service.create_pool(sku_id, total_units=3)
    held = service.reserve(sku_id, owner_id="ada", quantity=1)
    seen = []
    for event in service.events(held.reservation_id):
        seen.append(event.event)
        if event.event == "reservation.created":
            service.cancel(held.reservation_id)
    assert seen == ["reservation.created", "reservation.cancelled"]


async def test_the_events_of_a_reservation_are_read_with_asyncio(embedded: Server) -> None:
    async with AsyncClient(embedded.url, key=SERVICE_KEY) as client:
        sku_id = f"sku-{uuid4().hex[:8]}"
        await client.create_pool(sku_id, total_units=3)
        held = await client.reserve(sku_id, owner_id="ada", quantity=1)
        await client.confirm(held.reservation_id)
        seen = [event.data["type"] async for event in client.events(held.reservation_id)]
        with pytest.raises(problems.ReservationNotFound):
            [event async for event in client.events("rsv_nothing")]
    assert seen[0] == "reservation.created"
    assert seen[-1] == "reservation.confirmed"


def test_waiting_for_what_does_not_come_ends(service: Client) -> None:
    sku_id = f"sku-{uuid4().hex[:8]}"
    service.create_pool(sku_id, total_units=3)
    held = service.reserve(sku_id, owner_id="ada", quantity=1)
    with pytest.raises(WaitTimedOut):
        service.wait_for(held, timeout_s=0.2)
    service.cancel(held.reservation_id)
    assert service.wait_for(held).status == "cancelled"


def test_a_webhook_is_read_only_if_it_is_signed_and_fresh() -> None:
    secret = "whsec_" + "c2VjcmV0" * 4
    event = {"specversion": "1.0", "id": "e1", "type": "order.confirmed", "source": "/v1", "subject": "ord_1"}
    body = json.dumps(event | {"time": "2030-01-31T18:00:00.000Z", "data": {"order_id": "ord_1"}}).encode()

    def headers(at: datetime, content: bytes = body) -> dict[str, str]:
        signature = Webhook(secret).sign("m1", at, content.decode())
        return {"Webhook-Id": "m1", "Webhook-Timestamp": str(int(at.timestamp())), "Webhook-Signature": signature}

    now = datetime.now(UTC)
    assert verify_webhook(body, headers(now), secret).data == {"order_id": "ord_1"}
    for wrong in (headers(now - timedelta(minutes=6)), headers(now, b"{}"), {}):
        with pytest.raises(InvalidSignature):
            verify_webhook(body, wrong, secret)
