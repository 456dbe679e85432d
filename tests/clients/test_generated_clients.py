"""OpenAPI is fit for generators: public ones make clients of it that type-check and work."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from http_serving import SERVICE_KEY, Server

from holdfast.domain.stock.event_type import EventType
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.openapi import openapi_document, operation_name, problems_of
from holdfast.http.contract.openapi_webhooks import MEDIA_TYPE
from holdfast.ledger.events.cloud_event import CONTENT_TYPE, encode

pytest_plugins = ("http_fixtures",)

SHOWN = [endpoint for endpoint in ENDPOINTS if endpoint.is_documented]
# In an environment of its own: it needs older versions of what the CLI uses.
GENERATOR = ("openapi-python-client==0.29.1", "mypy==2.4.1")
PROGRAM = """
import sys
from holdfast_client import AuthenticatedClient
from holdfast_client.api.inventory import inventory_put_pool, inventory_reserve
from holdfast_client.models import PoolIn, Reserve409Problem, ReserveIn

url, key, sku_id = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=key) as client:
    pool = inventory_put_pool.sync(sku_id, client=client, body=PoolIn(total_units=1))
    assert pool.available == 1
    held = inventory_reserve.sync(sku_id, client=client, body=ReserveIn(owner_id="ada", quantity=1))
    assert held.status == "active"
    refused = inventory_reserve.sync(sku_id, client=client, body=ReserveIn(owner_id="bo", quantity=1))
    assert isinstance(refused, Reserve409Problem) and refused.reason == "insufficient_inventory"
"""


@pytest.fixture(scope="module")
def document(embedded: Server) -> dict[str, Any]:
    found: dict[str, Any] = embedded.client.get("/openapi.json").json()
    return found


def test_operations_are_named_after_their_tag_and_what_they_do() -> None:
    names = {endpoint.operation_id: operation_name(endpoint) for endpoint in SHOWN}
    assert names["create_sale"] == "sales.create"
    assert names["list_orders"] == "orders.list"
    assert len(set(names.values())) == len(SHOWN)


def test_each_refusal_lists_its_reasons() -> None:
    document = openapi_document(ENDPOINTS)
    schemas = document["components"]["schemas"]
    for endpoint in SHOWN:
        responses = document["paths"][endpoint.template][endpoint.method.lower()]["responses"]
        for status in {kind.status for kind in problems_of(endpoint)}:
            reference = responses[str(status)]["content"]["application/problem+json"]["schema"]["$ref"]
            listed = schemas[reference.rpartition("/")[2]]["allOf"][1]["properties"]["reason"]["enum"]
            assert listed == sorted(kind.reason for kind in problems_of(endpoint) if kind.status == status)


def test_every_json_body_has_an_example(document: dict[str, Any]) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            carriers = [operation.get("requestBody", {}), *operation["responses"].values()]
            contents = [
                one["content"]["application/json"] for one in carriers if "application/json" in one.get("content", {})
            ]
            assert all("example" in content for content in contents), operation["operationId"]


def test_every_type_of_event_is_a_webhook_of_the_document(document: dict[str, Any]) -> None:
    assert set(document["webhooks"]) == set(EventType)
    assert MEDIA_TYPE == CONTENT_TYPE
    sent = json.loads(encode("evt_1", "order.confirmed", "ord_1", 0, {}))
    assert sent.keys() == document["components"]["schemas"]["WebhookEvent"]["properties"].keys()
    for webhook in document["webhooks"].values():
        assert webhook["post"]["requestBody"]["content"][MEDIA_TYPE]["example"].keys() == sent.keys()


@pytest.mark.slow
def test_openapi_python_client_makes_a_client_that_works(
    embedded: Server, document: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    (tmp_path / "program.py").write_text(PROGRAM)
    run(tmp_path, sys.executable, "-m", "venv", "venv")
    run(tmp_path, "venv/bin/pip", "install", "--quiet", *GENERATOR)
    path = {"PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin"}
    generate = ("venv/bin/openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none")
    run(tmp_path, *generate, "--output-path", "holdfast_client", "--fail-on-warning", env=path)
    # What comes from our document, and not from its templates. It takes a stream of events for one text.
    made = ("--follow-imports", "silent", "holdfast_client/api", "holdfast_client/models")
    run(tmp_path, "venv/bin/mypy", "--exclude", "reservations_events", *made)
    run(tmp_path, "venv/bin/python", "program.py", embedded.url, SERVICE_KEY, f"sku-{uuid4().hex[:8]}")


def run(directory: Path, *command: str, env: dict[str, str] | None = None) -> str:
    ran = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
