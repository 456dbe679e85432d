"""Operations on webhooks that take more than one transaction, and test deliveries."""

from functools import partial
from uuid import uuid4

from sqlalchemy import Connection

from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.cloud_event import encode
from holdfast.ledger.events.deliveries import delete_deliveries, replay_since
from holdfast.ledger.events.outbox import NewDelivery, delivery_id, outbox_queries
from holdfast.ledger.events.webhooks import delete_webhook, disable_webhooks, find_webhook, latest_seq

PORTION = 2_000
TEST_TYPE = "webhook.test"


async def remove(database: Database, webhook_id: str) -> bool:
    """Disable the webhook first, so that no delivery is added while they are deleted. False if it does not exist."""

    def disable(connection: Connection) -> bool:
        disable_webhooks(connection, [webhook_id], database.now_ms(connection))
        return find_webhook(connection, webhook_id) is not None

    if not await database.write(disable):
        return False
    while await database.write(partial(delete_deliveries, webhook_id=webhook_id, limit=PORTION)):
        pass
    await database.write(partial(delete_webhook, webhook_id=webhook_id))
    return True


async def replay(database: Database, webhook_id: str, since: int) -> int:
    """Resend all deliveries created since then, and return how many."""
    replayed, after_seq, now = 0, -1, await database.read(database.now_ms)
    while True:
        work = partial(replay_since, webhook_id=webhook_id, since=since, now=now, after_seq=after_seq, limit=PORTION)
        count, last = await database.write(work)
        replayed += count
        if last is None:
            return replayed
        after_seq = last


def send_test(database: Database, connection: Connection, webhook_id: str) -> str:
    """Queue a test delivery with a sequence of its own, and return its ID."""
    now, seq, mark = database.now_ms(connection), latest_seq(connection), uuid4().hex[:12]
    name = f"{delivery_id(webhook_id, str(seq))}_{mark}"
    body = encode(f"evt_{mark}", TEST_TYPE, webhook_id, now, {"webhook_id": webhook_id})
    outbox_queries(database.dialect_name).add(
        connection, webhook_id, NewDelivery(name, seq, TEST_TYPE, name, body), now
    )
    return name
