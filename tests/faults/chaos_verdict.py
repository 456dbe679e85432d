"""What must be true after `chaos.py`: looked up in the gate, in the ledger, and by asking once more."""

import asyncio
import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from chaos_load import LONG_TTL_S, Buyers, Caller, Told, reserve
from processes import HoldfastProcess

from holdfast.domain.stock.reservation import Status
from holdfast.gate.redis.encoding import Keys
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.testing.snapshot import LedgerSnapshot
from ledger_snapshot import read_ledger_snapshot
from valkeys import ValkeyProcess

SETTLED_WITHIN_S = 90.0
ASKED_AGAIN = 150
AT_ONCE = 50
# What every pool here lets one owner have.
TAKEN_AT_ONCE = 4


async def examine(
    server: HoldfastProcess, valkey: ValkeyProcess, buyers: Buyers, totals: Mapping[str, int], cap: int
) -> list[str]:
    """What is wrong, in words."""
    wrong: list[str] = []
    caller = Caller(buyers.urls, random.Random(1))
    database = open_database(server.environment["HOLDFAST_DATABASE_URL"])
    try:
        if not buyers.lossy:
            await _asked_again(caller, buyers, wrong)
        await _end_all_holds(caller, database, valkey, totals, wrong)
        await _settled(database, valkey, totals)
        for sku_id, total in totals.items():
            await _check_pool(caller, database, sku_id, total, buyers, wrong)
            await _check_undersell(caller, sku_id, total, wrong)
        await _settled(database, valkey, totals)
        for sku_id in totals:
            _check_books(await read_ledger_snapshot(database, sku_id), wrong, lossy=buyers.lossy)
        _check_cap(await read_ledger_snapshot(database, "capped"), cap, wrong)
        await _check_command(server, wrong)
    finally:
        await caller.close()
        await database.close()
    return wrong


async def _asked_again(caller: Caller, buyers: Buyers, wrong: list[str]) -> None:
    """Same key, same answer, also after everything died (I5)."""

    async def again(told: Told) -> None:
        answer = await reserve(caller, told)
        if answer.status_code != 200 or answer.json() != told.first:
            wrong.append(f"asked again: {answer.status_code} {answer.text}, first {told.first}")

    known = buyers.reservations
    asked = random.Random(2).sample(known, min(len(known), ASKED_AGAIN))
    for at in range(0, len(asked), AT_ONCE):
        await asyncio.gather(*map(again, asked[at : at + AT_ONCE]))


async def _drained(valkey: ValkeyProcess, sku_ids: Iterable[str]) -> None:
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while any(valkey.command("XLEN", Keys(sku_id).journal) for sku_id in sku_ids):  # noqa: ASYNC110 - workers do it
            await asyncio.sleep(0.05)


async def _end_all_holds(
    caller: Caller, database: Database, valkey: ValkeyProcess, totals: Mapping[str, int], wrong: list[str]
) -> None:
    """Holds that nobody heard of, because the answer was lost, are given back as well."""
    await _drained(valkey, totals)
    for sku_id in totals:
        books = await read_ledger_snapshot(database, sku_id)
        for r in books.reservations.values():
            if r.status is Status.ACTIVE and r.expires_at - r.created_at >= LONG_TTL_S * 1000:
                answer = await caller.ask("DELETE", f"/v1/reservations/{r.reservation_id}")
                if answer.status_code != 204:
                    wrong.append(f"cannot give back {r}: {answer.text}")


async def _settled(database: Database, valkey: ValkeyProcess, totals: Mapping[str, int]) -> None:
    """Wait until all short holds have ended and the journals are in the ledger."""
    async with asyncio.timeout(SETTLED_WITHIN_S):
        for sku_id in totals:
            while await _has_overdue(database, sku_id):  # noqa: ASYNC110 - workers do it
                await asyncio.sleep(0.1)
    await _drained(valkey, totals)


async def _has_overdue(database: Database, sku_id: str) -> bool:
    now = await database.read(database.now_ms)
    books = await read_ledger_snapshot(database, sku_id)
    short = [r for r in books.reservations.values() if r.expires_at < now + LONG_TTL_S * 500]
    return any(r.status is Status.ACTIVE for r in short)


async def _check_pool(
    caller: Caller, database: Database, sku_id: str, total: int, buyers: Buyers, wrong: list[str]
) -> None:
    books = await read_ledger_snapshot(database, sku_id)
    _check_books(books, wrong, lossy=buyers.lossy)
    assert books.pool is not None
    gate = await _stock(caller, sku_id)
    ledger = {"total_units": total, "held": books.pool.held, "sold": books.pool.sold}
    if ledger.items() - gate.items():
        wrong.append(f"{sku_id}: the gate says {gate}, the ledger {ledger}")
    if gate["held"] or gate["available"] + gate["sold"] != total or books.pool.total != total:
        wrong.append(f"{sku_id}: not conserved: {gate}, {books.pool}")
    for told in buyers.reservations:
        if told.sku_id == sku_id:
            _check_told(told, books, wrong, lossy=buyers.lossy)


async def _stock(caller: Caller, sku_id: str) -> dict[str, Any]:
    body: dict[str, Any] = (await caller.ask("GET", f"/v1/inventory/{sku_id}/available")).json()
    return body


def _check_books(books: LedgerSnapshot, wrong: list[str], *, lossy: bool) -> None:
    """Conservation, and that every reservation has one beginning and at most one end (I1, I2, I6)."""
    try:
        books.check()
    except AssertionError as exc:
        wrong.append(f"{books.sku_id}: the books are wrong: {exc!r} {books.pool}")
    # One that was sold and forgotten before the ledger heard of it has no key any more.
    if len(books.reservations) != len(books.remembered) and not lossy:
        wrong.append(f"{books.sku_id}: {len(books.reservations)} reservations, {len(books.remembered)} keys")


def _check_told(told: Told, books: LedgerSnapshot, wrong: list[str], *, lossy: bool) -> None:
    """What was acknowledged is there, and ended as it was told (I9); what was sold even if Redis forgot it."""
    assert told.first is not None
    if lossy and told.end != "confirmed":
        return
    found = books.reservations.get(told.reservation_id)
    if found is None:
        wrong.append(f"acknowledged and lost: {told.first}")
    elif (found.owner_id, found.quantity) != (told.first["owner_id"], told.first["quantity"]):
        wrong.append(f"not what was acknowledged: {told.first}, {found}")
    elif told.end is not None and found.status != told.end:
        wrong.append(f"told that it is {told.end}: {found}")
    elif told.end is None and found.status not in (Status.EXPIRED, Status.CANCELLED):
        wrong.append(f"nobody ended it: {found}")


async def _check_undersell(caller: Caller, sku_id: str, total: int, wrong: list[str]) -> None:
    """Every unit that is not sold can be reserved again, and no unit more (I10)."""
    sold = (await _stock(caller, sku_id))["sold"]

    async def take(number: int) -> int:
        request = {"owner_id": f"last-{number}", "quantity": TAKEN_AT_ONCE, "min_quantity": 1, "ttl_seconds": 1800}
        answer = await reserve(caller, Told(sku_id, request | {"idempotency_key": "last"}))
        return int(answer.json()["quantity"]) if answer.status_code == 200 else 0

    numbers = range(total // TAKEN_AT_ONCE + AT_ONCE)
    portions = [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]
    taken = sum([sum(await asyncio.gather(*map(take, portion))) for portion in portions])
    if sold + taken != total:
        wrong.append(f"{sku_id}: {sold} sold and {taken} reserved again of {total}")


def _check_cap(books: LedgerSnapshot, cap: int, wrong: list[str]) -> None:
    units: dict[str, int] = {}
    for r in books.reservations.values():
        if r.status in (Status.ACTIVE, Status.SETTLING, Status.CONFIRMED):
            units[r.owner_id] = units.get(r.owner_id, 0) + r.quantity
    wrong += [f"{owner_id} has {has} of at most {cap}" for owner_id, has in units.items() if has > cap]


async def _check_command(server: HoldfastProcess, wrong: list[str]) -> None:
    ran = await asyncio.to_thread(server.run_command, "pools", "check", "--json")
    if ran.returncode != 0 or not json.loads(ran.stdout)["ok"]:
        wrong.append(f"holdfast pools check: {ran.stdout} {ran.stderr}")
