"""`holdfast keys`, on each engine."""

import asyncio
import time
from pathlib import Path

import pytest
from cli_running import Cli, Here
from joserfc import jwt
from joserfc.jwk import OctKey

from holdfast.ledger.access.keys import Scope, ServiceKey, find_key
from holdfast.ledger.engine.opening import open_database

pytest_plugins = ("cli_fixtures",)


@pytest.fixture
def cli(tmp_path: Path, database_url: str) -> Cli:
    return Cli(tmp_path, {"DATABASE_URL": database_url})


def found_by(url: str, text: str) -> ServiceKey | None:
    async def find() -> ServiceKey | None:
        database = open_database(url)
        try:
            return await database.read(lambda connection: find_key(connection, text))
        finally:
            await database.close()

    return asyncio.run(find())


def test_a_key_works_until_it_is_revoked(cli: Cli, here: Here, database_url: str) -> None:
    made = cli("keys", "create", "--name", "checkout", "--scope", "inventory", "--scope", "operate", "--json").json
    key = found_by(database_url, made["key"])
    assert key is not None
    assert key.name == "checkout"
    assert key.scopes == frozenset({Scope.INVENTORY, Scope.OPERATE})

    [listed] = here("keys", "list", "--json", DATABASE_URL=database_url).json["data"]
    assert listed == {name: value for name, value in made.items() if name != "key"}

    revoked = here("keys", "revoke", made["key_id"], "--json", DATABASE_URL=database_url)
    assert revoked.json == {"key_id": made["key_id"], "revoked": True}
    assert found_by(database_url, made["key"]) is None


def test_keys_are_shown_in_a_table_and_their_secrets_only_once(here: Here) -> None:
    made = here("keys", "create", "--name", "[bold]cash desk[/]", "--scope", "inventory")
    [text] = [line.strip() for line in made.lines if line.strip().startswith("hf_")]
    key_id = text.split("_")[1]
    assert f"Key {key_id}" in made.lines[0]
    table = here("keys", "list")
    revoked, unknown = here("keys", "revoke", key_id), here("keys", "revoke", "nobody")
    assert table.lines[0].split() == ["key", "id", "name", "scopes", "created", "revoked"]
    assert table.lines[1].startswith(f"{key_id}  [bold]cash desk[/]  inventory  20")
    assert text not in table.out
    assert revoked.out == f"Key {key_id} is revoked.\n"
    assert (unknown.code, unknown.out) == (1, "")
    assert "holdfast keys list" in unknown.err


def test_a_whole_key_is_revoked_by_its_id_and_no_secret_is_shown(here: Here) -> None:
    made = here("keys", "create", "--name", "checkout", "--scope", "inventory", "--json").json
    secret = made["key"].rpartition("_")[2]
    revoked = here("keys", "revoke", made["key"])
    assert (revoked.code, revoked.out) == (0, f"Key {made['key_id']} is revoked.\n")
    for text, code in ((f"hf_{'0' * 12}_{secret}", 1), (secret, 1), (f"hf_{secret}", 2)):
        # A random secret may begin with a dash.
        unknown = here("keys", "revoke", "--", text)
        assert (unknown.code, unknown.out) == (code, "")
        assert secret not in unknown.err


def test_a_buyer_token_is_signed_with_the_servers_secret(tmp_path: Path) -> None:
    cli = Cli(tmp_path, {"BUYER_SECRET": "b0ye45ec" * 4})
    signed = cli("keys", "token", "ada", "--tier", "2", "--minutes", "10", "--json").json["token"]
    claims = jwt.decode(signed, OctKey.import_key("b0ye45ec" * 4), algorithms=["HS256"]).claims
    assert (claims["sub"], claims["tier"]) == ("ada", 2)
    assert 0 < claims["exp"] - time.time() <= 600


def test_no_token_is_signed_if_buyer_keys_are_published(tmp_path: Path) -> None:
    refused = Cli(tmp_path, {"BUYER_JWKS_URL": "https://login.example.com/jwks"})("keys", "token", "ada")
    assert (refused.code, refused.out) == (2, "")
    assert "published keys" in refused.err
