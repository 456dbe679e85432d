"""Service keys: shown once, kept as a hash, good until revoked."""

import asyncio

import pytest
from sqlalchemy import Connection, select, text

from holdfast.ledger.access.keys import (
    EVERY_SCOPE,
    Scope,
    ServiceKey,
    create_key,
    find_key,
    list_keys,
    lock_standing_key,
    revoke_key,
)
from holdfast.ledger.engine.database import Database
from holdfast.ledger.tables.access import service_keys
from holdfast.testing.states import NOW

INVENTORY = frozenset({Scope.INVENTORY})


async def make(database: Database, scopes: frozenset[Scope] = INVENTORY, now: int = NOW) -> tuple[ServiceKey, str]:
    return await database.write(lambda connection: create_key(connection, "shop", scopes, now))


async def find(database: Database, text: str) -> ServiceKey | None:
    return await database.read(lambda connection: find_key(connection, text))


async def test_a_key_is_found_by_its_text_with_its_scopes(database: Database) -> None:
    for scopes in (INVENTORY, EVERY_SCOPE, frozenset({Scope.SALES, Scope.OPERATE})):
        key, text = await make(database, scopes)
        assert key.scopes == scopes
        assert text.startswith("hf_")
        assert await find(database, text) == key


async def test_the_secret_is_kept_nowhere(database: Database) -> None:
    key, text = await make(database)
    secret = text.removeprefix(f"hf_{key.key_id}_")
    [row] = await database.read(lambda connection: connection.execute(select(service_keys)).all())
    assert len(secret) >= 40
    assert secret not in repr(row)


async def test_no_two_keys_are_alike(database: Database) -> None:
    assert len({(await make(database))[1] for _ in range(20)}) == 20


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text + "x",
        lambda text: text[:-1],
        lambda text: text.replace("hf_", "xx_"),
        lambda text: text.rpartition("_")[0] + "_",
        lambda _: "hf_",
        lambda _: "",
        lambda _: "hf_unknown_secret",
        lambda text: "_".join(text.split("_", 2)[:2]),
    ],
)
async def test_a_text_that_is_not_quite_a_key_is_none(database: Database, spoil: object) -> None:
    _, text = await make(database)
    assert callable(spoil)
    assert await find(database, spoil(text)) is None


async def test_the_secret_of_one_key_does_not_open_another(database: Database) -> None:
    (one, _), (_, other_text) = await make(database), await make(database)
    secret = other_text.split("_", 2)[2]
    assert await find(database, f"hf_{one.key_id}_{secret}") is None


async def test_a_revoked_key_is_found_no_more_but_stays_on_the_list(database: Database) -> None:
    key, text = await make(database)
    assert await database.write(lambda connection: revoke_key(connection, key.key_id, NOW + 1))
    assert await database.write(lambda connection: revoke_key(connection, key.key_id, NOW + 2))
    assert await find(database, text) is None
    [listed] = await database.read(list_keys)
    assert listed == ServiceKey(key.key_id, "shop", INVENTORY, NOW, NOW + 1)


async def test_revoking_one_key_leaves_the_others(database: Database) -> None:
    (one, _), (other, text) = await make(database), await make(database)
    await database.write(lambda connection: revoke_key(connection, one.key_id, NOW))
    assert await find(database, text) == other
    assert await database.write(lambda connection: revoke_key(connection, "unknown", NOW)) is False


async def test_keys_are_listed_oldest_first(database: Database) -> None:
    made = [(await make(database, now=NOW + n))[0] for n in (2, 0, 1)]
    assert await database.read(list_keys) == sorted(made, key=lambda key: key.created_at)


async def test_a_key_made_while_the_key_above_its_maker_is_revoked_goes_too(database: Database) -> None:
    top, _ = await make(database)
    maker, _ = await database.write(lambda connection: create_key(connection, "maker", INVENTORY, NOW, top.key_id))
    is_locked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def make_slowly(connection: Connection) -> str:
        assert lock_standing_key(connection, maker.key_id)
        _, made = create_key(connection, "late", INVENTORY, NOW, maker.key_id)
        loop.call_soon_threadsafe(is_locked.set)
        if database.dialect_name == "postgresql":  # On SQLite, writes wait for each other anyway.
            connection.execute(text("SELECT pg_sleep(0.3)"))
        return made

    making = asyncio.create_task(database.write(make_slowly))
    await is_locked.wait()
    await database.write(lambda connection: revoke_key(connection, top.key_id, NOW))
    assert await find(database, await making) is None
    assert not await database.write(lambda connection: lock_standing_key(connection, maker.key_id))
