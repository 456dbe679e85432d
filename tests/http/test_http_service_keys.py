"""Service keys: who may do what, and how soon a revoked one is refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_calling import body_of, eventually, problem_of
from http_serving import SERVICE_KEY, Server, started

from holdfast.bootstrap import open_house
from holdfast.errors import SettingsError
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)

REVOKED_WITHIN_S = 6.0
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
     "Bearer hf_\xff\xfe_x", "Bearer \xff", "Bearer hf_' OR 1=1 --_x", "Bearer hf_" + "x" * 8_000, "Bearer null"],
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


def test_a_revoked_key_is_refused_within_seconds(embedded: Server) -> None:
    key = embedded.command("keys", "create", "--name", "leaked", "--scope", "inventory", "--scope", "operate")
    with embedded.connect(key["key"]) as client:
        body_of(client.get("/v1/reservations"))
        embedded.command("keys", "revoke", key["key_id"])

        def refused() -> bool:
            return {client.get(p).status_code for p in ("/v1/reservations", "/metrics")} == {401}

        eventually(refused, within_s=REVOKED_WITHIN_S)
        problem_of(client.get("/v1/inventory/a/available"), 401, "unauthorized")


@pytest.mark.parametrize("name", ["service_key", "buyer_secret"])
@pytest.mark.parametrize(("content", "told"), [("", "is empty"), ("hf_short", "is damaged")])
def test_a_generated_secret_that_was_cut_short_is_not_used(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    settings = load_settings(data=tmp_path)
    with pytest.raises(SettingsError, match=rf"{name} {told}.*remove it"):
        settings.service_key_text() if name == "service_key" else settings.buyer_secret_text()


async def test_no_secret_is_made_where_keys_are_published(tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path, buyer_jwks_url="http://127.0.0.1:9/jwks.json")
    async with open_house(settings, background=False):
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
