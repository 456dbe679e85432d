"""Service keys: who may do what, and how soon a revoked one is refused."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_calling import body_of, problem_of
from http_serving import SERVICE_KEY, Server, started
from http_sockets import request_bytes, wire_to
from sqlalchemy import create_engine, update

from holdfast.bootstrap.services import open_services
from holdfast.errors import SettingsError
from holdfast.ledger.tables.access import service_keys
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)

INVENTORY: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/inventory/scoped", {"total_units": 1}),
    ("GET", "/v1/inventory/scoped/available", None),
    ("POST", "/v1/inventory/scoped/reserve", {"owner_id": "ada", "quantity": 1}),
    ("GET", "/v1/reservations", None),
    ("GET", "/v1/reservations/r", None),
    ("GET", "/v1/reservations/r/history", None),
    ("POST", "/v1/reservations/r/confirm", None),
    ("POST", "/v1/reservations/r/extend", {"ttl_seconds": 1}),
    ("DELETE", "/v1/reservations/r", None),
]
OPERATE: list[tuple[str, str, Any]] = [("GET", "/metrics", None)]


@pytest.fixture(scope="module")
def keys(embedded: Server) -> dict[str, dict[str, Any]]:
    scopes = {"inventory": ["inventory"], "sales": ["sales"], "operate": ["operate"], "both": ["inventory", "operate"]}

    def create(name: str) -> dict[str, Any]:
        options = [option for scope in scopes[name] for option in ("--scope", scope)]
        made: dict[str, Any] = embedded.command("keys", "create", "--name", name, *options)
        return made

    with ThreadPoolExecutor() as threads:
        return dict(zip(scopes, threads.map(create, scopes), strict=True))


def ask(server: Server, key: str | None, method: str, path: str, body: Any) -> httpx.Response:
    with server.connect(key) as client:
        return client.request(method, path, json=body)


@pytest.mark.parametrize(("method", "path", "body"), INVENTORY + OPERATE)
def test_without_a_token_everything_is_refused(embedded: Server, method: str, path: str, body: Any) -> None:
    answer = ask(embedded, None, method, path, body)
    problem_of(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "credentials",
    ["", "Bearer", "Basic YTpi", "Token hf_1", SERVICE_KEY, "Bearer hf_", "Bearer hf_x", "Bearer hf_a_b",
     f"Bearer {SERVICE_KEY}x", f"Bearer {SERVICE_KEY[:-1]}", f"Bearer {SERVICE_KEY.upper()}", f"Bearer {SERVICE_KEY} x",
     "Bearer hf_' OR 1=1 --_x", "Bearer hf_" + "x" * 8_000, "Bearer null"],
)  # fmt: skip
def test_credentials_that_are_nobodys_are_refused(embedded: Server, credentials: str) -> None:
    headers = {b"Authorization": credentials.encode("latin-1")}
    with embedded.connect() as client:
        for path in ("/v1/inventory/scoped/available", "/v1/reservations", "/metrics"):
            problem_of(client.get(path, headers=headers), 401, "unauthorized")


def test_the_word_bearer_may_be_written_in_any_case(embedded: Server) -> None:
    for word in ("bearer", "BEARER", "Bearer"):
        headers = {"Authorization": f"{word} {SERVICE_KEY}"}
        assert embedded.client.get("/metrics", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("scope", "allowed", "refused"),
    [("inventory", INVENTORY, OPERATE), ("operate", OPERATE, INVENTORY), ("sales", [], INVENTORY + OPERATE),
     ("both", INVENTORY + OPERATE, [])],
)  # fmt: skip
def test_a_key_opens_what_its_scopes_say_and_nothing_else(
    embedded: Server,
    keys: dict[str, dict[str, Any]],
    scope: str,
    allowed: list[tuple[str, str, Any]],
    refused: list[tuple[str, str, Any]],
) -> None:
    for request in allowed:
        assert ask(embedded, keys[scope]["key"], *request).status_code not in (401, 403)
    for request in refused:
        problem_of(ask(embedded, keys[scope]["key"], *request), 403, "forbidden")


def test_a_key_is_told_once_and_kept_as_a_hash(embedded: Server, keys: dict[str, dict[str, Any]]) -> None:
    key = keys["inventory"]
    assert key["key"].startswith("hf_")
    listed = embedded.command("keys", "list")["data"]
    assert key["key_id"] in [entry["key_id"] for entry in listed]
    assert key["key"] not in str(listed)
    secret = key["key"].split("_", 2)[2].encode()
    assert not [
        file for file in (embedded.directory / "data").rglob("*") if file.is_file() and secret in file.read_bytes()
    ]


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    """With a key that may make others."""
    made = server.command("keys", "create", "--name", "root", "--scope", "admin", "--scope", "inventory")
    with server.connect(made["key"]) as client:
        client.headers["Key-Id"] = made["key_id"]
        yield client


def make_key(client: httpx.Client, *scopes: str) -> dict[str, Any]:
    answer = client.post("/v1/ops/keys", json={"name": "made", "scopes": scopes})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_revoked_key_is_refused_at_the_next_request_by_a_server_that_just_accepted_it(server: Server) -> None:
    """The command line revokes it in a process of its own, as another server would."""
    key = server.command("keys", "create", "--name", "leaked", "--scope", "inventory", "--scope", "operate")
    with server.connect(key["key"]) as client:
        body_of(client.get("/v1/reservations"))
        server.command("keys", "revoke", key["key_id"])
        for path in ("/v1/reservations", "/metrics", "/v1/inventory/a/available"):
            problem_of(client.get(path), 401, "unauthorized")


def test_the_keys_made_by_a_revoked_key_go_with_it(server: Server, admin: httpx.Client) -> None:
    child = make_key(admin, "admin", "inventory")
    with server.connect(child["key"]) as client:
        grandchild = make_key(client, "inventory")
    with server.connect(child["key"]) as one, server.connect(grandchild["key"]) as other:
        body_of(one.get("/v1/reservations"))
        body_of(other.get("/v1/reservations"))
        server.command("keys", "revoke", admin.headers["Key-Id"])
        for client in (admin, one, other):
            problem_of(client.get("/v1/reservations"), 401, "unauthorized")


def test_a_key_that_is_revoked_before_its_request_is_complete_makes_and_revokes_none(
    server: Server, admin: httpx.Client
) -> None:
    key, key_id = admin.headers["Authorization"].removeprefix("Bearer "), admin.headers["Key-Id"]
    other = make_key(server.client, "inventory")
    making = request_bytes("POST", "/v1/ops/keys", {"name": "late", "scopes": ["inventory"]}, token=key)
    revoking = request_bytes("DELETE", f"/v1/ops/keys/{other['key_id']}", {}, token=key)
    with wire_to(server) as one, wire_to(server) as two:
        one.send(making[:-1])
        two.send(revoking[:-1])
        body_of(admin.get("/v1/reservations"))  # By now both have been identified.
        assert server.client.delete(f"/v1/ops/keys/{key_id}").status_code == 204
        one.send(making[-1:])
        two.send(revoking[-1:])
        assert (one.read_answer().status, two.read_answer().status) == (401, 401)
    listed = body_of(server.client.get("/v1/ops/keys"))["data"]
    assert not [entry for entry in listed if entry["name"] == "late"]
    assert [entry["revoked_at"] for entry in listed if entry["key_id"] == other["key_id"]] == [None]


def test_the_console_sessions_of_a_revoked_key_end_at_the_next_request(server: Server) -> None:
    key = server.command("keys", "create", "--name", "leaked", "--scope", "sales")
    with server.connect(key["key"]) as client:
        cookie = client.post("/v1/console/session").headers["set-cookie"].partition(";")[0]
    console = {"Holdfast-Console": "1", "Sec-Fetch-Site": "same-origin", "Cookie": cookie}
    with server.connect() as client:
        body_of(client.get("/v1/sales", headers=console))
        server.command("keys", "revoke", key["key_id"])
        problem_of(client.get("/v1/sales", headers=console), 401, "unauthorized")


def test_a_key_with_operate_revokes_nobodys(embedded: Server, keys: dict[str, dict[str, Any]]) -> None:
    with embedded.connect(keys["operate"]["key"]) as client:
        for key in (keys["inventory"], keys["operate"]):
            problem_of(client.delete(f"/v1/ops/keys/{key['key_id']}"), 403, "forbidden")
        problem_of(client.get("/v1/ops/keys"), 403, "forbidden")
        problem_of(client.post("/v1/ops/keys", json={"name": "x", "scopes": ["operate"]}), 403, "forbidden")


def doctor_checks(server: Server) -> list[dict[str, Any]]:
    """Its status is not asked: there are other findings if the tests' files are in memory."""
    _, out, _ = server.run("doctor", "--json")
    checks: list[dict[str, Any]] = json.loads(out)["checks"]
    return checks


def test_a_key_from_before_the_new_scopes_keeps_what_it_could_do_but_revokes_only_its_own(
    embedded: Server, keys: dict[str, dict[str, Any]]
) -> None:
    old = embedded.command("keys", "create", "--name", "old", "--scope", "operate")
    engine = create_engine(f"sqlite:///{embedded.directory}/data/holdfast.db")
    with engine.begin() as connection:
        is_it = service_keys.c.key_id == old["key_id"]
        connection.execute(update(service_keys).where(is_it).values(scopes_version=1))
    engine.dispose()
    with embedded.connect(old["key"]) as client:
        credit = {"amount": 100, "currency": "EUR", "idempotency_key": "k"}
        assert client.post("/v1/wallets/ada/credit", json=credit).status_code == 200
        body_of(client.get("/v1/ops/keys"))
        child = make_key(client, "operate", "money")
        problem_of(client.post("/v1/ops/keys", json={"name": "x", "scopes": ["admin"]}), 403, "forbidden")
        problem_of(client.delete(f"/v1/ops/keys/{keys['inventory']['key_id']}"), 403, "forbidden")
        assert client.delete(f"/v1/ops/keys/{child['key_id']}").status_code == 204
        [finding] = [check for check in doctor_checks(embedded) if check["name"] == "keys"]
        assert old["key_id"] in finding["found"]
        assert client.delete(f"/v1/ops/keys/{old['key_id']}").status_code == 204
    assert "keys" not in [check["name"] for check in doctor_checks(embedded)]


MONEY: list[tuple[str, str, Any]] = [
    ("POST", "/v1/wallets/ada/credit", {"amount": 1, "currency": "EUR", "idempotency_key": "k"}),
    ("POST", "/v1/orders/ord_1/refund", {}),
    ("POST", "/v1/ops/sales/x/compensate", {}),
]
ADMIN: list[tuple[str, str, Any]] = [
    ("GET", "/v1/ops/keys", None),
    ("POST", "/v1/ops/keys", {"name": "x", "scopes": ["admin"]}),
    ("DELETE", "/v1/ops/keys/000000000000", None),
]


@pytest.mark.parametrize(
    ("scope", "allowed", "refused"),
    [
        ("money", MONEY, ADMIN + INVENTORY + OPERATE),
        ("admin", ADMIN, MONEY + INVENTORY + OPERATE),
        ("operate", OPERATE, MONEY + ADMIN),
        ("read", OPERATE + [one for one in INVENTORY if one[0] == "GET"], MONEY + ADMIN),
    ],
)
def test_money_and_keys_need_scopes_of_their_own_and_read_changes_nothing(
    embedded: Server, scope: str, allowed: list[tuple[str, str, Any]], refused: list[tuple[str, str, Any]]
) -> None:
    key = embedded.command("keys", "create", "--name", scope, "--scope", scope)["key"]
    for request in allowed:
        assert ask(embedded, key, *request).status_code not in (401, 403)
    for request in refused:
        problem_of(ask(embedded, key, *request), 403, "forbidden")


@pytest.mark.parametrize("name", ["service_key", "buyer_secret"])
@pytest.mark.parametrize(("content", "told"), [("", "is empty"), ("hf_short", "is damaged")])
def test_a_generated_secret_that_was_cut_short_is_not_used(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    settings = load_settings(data=tmp_path)
    with pytest.raises(SettingsError, match=rf"{name} {told}.*remove it"):
        settings.service_key_text() if name == "service_key" else settings.buyer_secret_text()


async def test_no_secret_is_made_where_keys_are_published(tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path, buyer_jwks_url="http://127.0.0.1:9/jwks.json")
    async with open_services(settings, background=False):
        assert not (tmp_path / "buyer_secret").exists()


def test_a_generated_key_is_for_its_owner_only(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("generated")
    with started(directory, settings={"SERVICE_KEY": "", "BUYER_SECRET": ""}) as server:
        file = directory / "data" / "service_key"
        assert {(directory / "data" / name).stat().st_mode & 0o777 for name in ("service_key", "buyer_secret")} == {
            0o600
        }
        with server.connect(file.read_text()) as client:
            assert client.get("/metrics").status_code == 200
        assert file.read_text() not in server.log
