"""Accounts per device: exact over all processes on one ledger."""

import asyncio

from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.device_accounts import prune_devices
from holdfast.room.devices import DeviceAccounts


async def test_of_many_who_claim_one_device_in_several_processes_so_many_get_it(database: Database) -> None:
    processes = [DeviceAccounts(database, "secret", 3) for _ in range(4)]
    claims = [processes[n % 4].claim("drop", "device", f"buyer-{n // 2}") for n in range(40)]
    answers = await asyncio.gather(*claims)
    allowed = {n // 2 for n, is_allowed in enumerate(answers) if is_allowed}
    assert len(allowed) == 3
    again = DeviceAccounts(database, "secret", 3)
    assert [n for n in range(20) if await again.claim("drop", "device", f"buyer-{n}")] == sorted(allowed)
    assert await again.claim("other", "device", "buyer-of-another-sale")


async def test_devices_are_forgotten(database: Database) -> None:
    devices = DeviceAccounts(database, "secret", 1)
    assert await devices.claim("drop", "device", "ada")
    assert await database.write(lambda c: prune_devices(c, 2**53, limit=10)) == 1
    assert await DeviceAccounts(database, "secret", 1).claim("drop", "device", "bob")
