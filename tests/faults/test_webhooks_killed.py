"""The server dies after it has sent, and before it has written that down: sent again, known by its id, in order."""

import asyncio
from pathlib import Path

from processes import HoldfastProcess, ask, make_pool, serving
from sqlalchemy import update

from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.tables.webhooks import deliveries
from receiver import Received, Receiver, Reply, receiving

DEATHS = 2
LIFE = ["reservation.created", "reservation.confirmed"]


async def let_leases_run_out(url: str) -> None:
    """As if the 20 seconds had passed."""
    database = open_database(url)
    try:
        await database.write(lambda c: c.execute(update(deliveries).values(leased_until=0)))
    finally:
        await database.close()


async def buy(holdfast: HoldfastProcess, key: str) -> None:
    async with holdfast.client() as client:
        reservation = (await ask(client, key)).json()
        confirmed = await client.post(f"/v1/reservations/{reservation['reservation_id']}/confirm")
        assert confirmed.status_code == 200, confirmed.text


async def add(holdfast: HoldfastProcess, receiver: Receiver) -> str:
    async with holdfast.client() as client:
        await make_pool(client, 100)
        made = await client.post("/v1/webhooks", json={"url": receiver.url, "events": ["reservation.*"]})
        return str(made.json()["secret"])


async def test_kill_9_between_sending_and_writing_it_down(database_url: str, tmp_path: Path) -> None:
    fatal: list[HoldfastProcess] = []

    def kill_first(_received: Received) -> Reply:
        while fatal:
            fatal.pop().kill()
        return Reply()

    with receiving(kill_first) as receiver:
        async with serving(tmp_path / "data", database_url=database_url, webhook_private="1") as holdfast:
            secret = await add(holdfast, receiver)
            for death in range(DEATHS):
                before = len(receiver.accepted)
                fatal.append(holdfast)
                buying = asyncio.create_task(buy(holdfast, f"death-{death}"))
                await receiver.until(lambda: len(receiver.accepted) > before)  # noqa: B023 - waited for at once
                await asyncio.wait([buying])
                buying.exception()
                await let_leases_run_out(database_url)
                await holdfast.start()
                await buy(holdfast, f"death-{death}")
                await receiver.until(lambda: len(receiver.types_by_subject()) > death and _complete(receiver))  # noqa: B023
        sent_again = len(receiver.accepted) - len({r.id for r in receiver.accepted})
        assert sent_again >= DEATHS, "nobody died at the right moment, so this shows nothing"
        assert all(received.verified(secret) for received in receiver.accepted)


def _complete(receiver: Receiver) -> bool:
    return all(types == LIFE for types in receiver.types_by_subject().values())
