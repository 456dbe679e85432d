"""What Redis knows about a ledger that went back in time: how far it was seen, and the active holds.

While the ledger is closed no pool is rebuilt from it, so Redis keeps its data until an operator has decided.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.domain.stock.reservation import Reservation
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import POOL_PATTERN, Keys, decode, pool_of, reservation_from
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import Acknowledged, KeptMark
from holdfast.ledger.stock.journal import positions

MARK_KEY = "hf:ledger-mark"
PORTION = 1_000
# Fields of a hold, and of an idempotency key's record.
RECORD_FIELDS = 5


class RedisEvidence:
    def __init__(self, client: RedisClient, database: Database) -> None:
        self._client, self._database = client, database

    async def read(self) -> KeptMark | None:
        [stored] = await self._client.call(MARK_KEY, ["GET", MARK_KEY])
        return None if stored is None else msgspec.json.decode(stored, type=KeptMark)

    async def write(self, kept: KeptMark) -> None:
        await self._client.call(MARK_KEY, ["SET", MARK_KEY, msgspec.json.encode(kept)])

    async def holds(self) -> list[Acknowledged]:
        """All holds in Redis, including those in pools that the ledger lost."""
        found: list[Acknowledged] = []
        for sku_id in await self._pools():
            keys = Keys(sku_id)
            made_with = dict(_made_with(await self._fields(keys.keys)))
            for name, values in await self._fields(keys.holds):
                hold: Reservation = reservation_from(sku_id, name, values)
                key, fingerprint = made_with.get(name, (None, ""))
                found.append(Acknowledged(hold, key, fingerprint))
        return found

    async def close_pools(self) -> None:
        """Closes pools of any epoch, because their grants could not be read into the ledger. Pools that the ledger lost
        are removed: they would never be rebuilt, and would block a new pool."""
        known = await self._database.read(positions)
        for sku_id in await self._pools():
            keys = Keys(sku_id)
            [epoch] = await self._client.call(keys.pool, ["HGET", keys.pool, "epoch"])
            if epoch is not None:
                await self._client.call_function("holdfast_close_v2", [keys.pool], [int(epoch)])
            if sku_id not in known:
                await self._client.call(keys.pool, ["UNLINK", *keys.all])

    async def _pools(self) -> list[str]:
        """Every pool in Redis, and those of the ledger that may have lost their pool key there."""
        found = set(await self._database.read(positions))
        for primary in await self._client.key_per_primary():
            cursor: Any = b"0"
            while True:
                command = ["SCAN", cursor, "MATCH", POOL_PATTERN, "COUNT", PORTION]
                [[cursor, page]] = await self._client.call(primary, command)
                found |= {pool_of(_text(key)) for key in page}
                if _text(cursor) == "0":
                    break
        return sorted(found)

    async def _fields(self, name: str) -> list[tuple[str, list[Any]]]:
        """The fields of a hash, read in portions small enough not to delay other commands."""
        found: dict[str, Any] = {}
        cursor: Any = b"0"
        while True:
            [[cursor, page]] = await self._client.call(name, ["HSCAN", name, cursor, "COUNT", PORTION])
            found |= {_text(page[i]): page[i + 1] for i in range(0, len(page), 2)}
            if _text(cursor) == "0":
                return list(_records(found))


def _records(fields: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The fields that are records: each hash also has a field that names its pool."""
    for name, packed in fields.items():
        with suppress(msgspec.MsgspecError):
            values = decode(packed)
            if isinstance(values, list) and len(values) >= RECORD_FIELDS:
                yield name, values


def _made_with(stored: list[tuple[str, list[Any]]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each reservation, and its key and fingerprint. A field is the length of the owner, the owner and the key."""
    for field, (fingerprint, reservation_id, *_) in stored:
        length, _, rest = field.partition(":")
        yield reservation_id, (rest[int(length) + 1 :], fingerprint)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
