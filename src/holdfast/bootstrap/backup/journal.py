"""What a backup lacks in Redis mode: acknowledged decisions that are only in Redis's journals so far."""

from holdfast.errors import Unavailable
from holdfast.ledger.engine.opening import open_database
from holdfast.settings import Settings


async def journal_lag(settings: Settings) -> int | None:
    """How many journal entries the ledger lacks now; None if Redis does not answer, for a backup must not need it."""
    # Imported only if Redis is configured, because its client is slow to import.
    from holdfast.gate.redis.client import open_client  # noqa: PLC0415 - see above
    from holdfast.gate.redis.journal_lag import JournalLag  # noqa: PLC0415 - see above

    database = open_database(settings.database_url, connections=1)
    client = open_client(settings.redis_url, timeout_s=settings.redis_timeout_ms / 1000)
    try:
        lags = await JournalLag(database, client).by_pool()
    except Unavailable:
        return None
    finally:
        await client.close()
        await database.close()
    return sum(lag.items for lag in lags.values())
