"""The marks of the configured ledger (`ledger/mark/`) that are kept outside it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog
from sqlalchemy import make_url

from holdfast.bootstrap.stores import database_file
from holdfast.errors import EngineError
from holdfast.gate.engine import Engine
from holdfast.ledger.chain.checkpoint import CheckpointKey
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.checkpoint_log import CheckpointLog
from holdfast.ledger.mark.mark import Mark, is_of, went_back
from holdfast.ledger.mark.mark_file import MarkFile
from holdfast.ledger.mark.watch import LastResort, LedgerWatch, MarkStore
from holdfast.ledger.stock.recovery.late_losses import apply_decision
from holdfast.runtime.agent import Agents
from holdfast.runtime.signing import parse_signing_keys
from holdfast.settings import Settings

log = structlog.get_logger()


@asynccontextmanager
async def watch_ledger(
    settings: Settings, database: Database, engine: Engine, last_resort: LastResort
) -> AsyncIterator[LedgerWatch]:
    """Compares the ledger with what was seen of it before, and goes on doing so."""
    key = CheckpointKey(parse_signing_keys(settings.signing_key_text())[0])
    stores = [*mark_stores(settings, engine), CheckpointLog(settings.data / "checkpoints.jsonl")]
    contribute = partial(apply_decision, database)
    watch = LedgerWatch(
        database, place_of(settings), stores, settings.data, engine.acknowledged, last_resort, key, contribute
    )
    await watch.start()
    agents = Agents()
    agents.start(watch.agent())
    try:
        yield watch
    finally:
        await agents.stop()
        await watch.stop()


def mark_stores(settings: Settings, engine: Engine) -> list[MarkStore]:
    """Where marks are kept, outside the ledger."""
    return [_file(settings)] if engine.evidence is None else [_file(settings), engine.evidence]


async def compare_kept(settings: Settings, database: Database) -> list[tuple[str, Mark]]:
    """What the ledger lacks, in words, and how far it was seen. Without Redis, if that does not answer."""
    found = await compare_marks(settings, database, [_file(settings)])
    if settings.has_redis and not found:
        try:
            async with _open_redis_mark(settings, database) as store:
                return await compare_marks(settings, database, [store])
        except EngineError as exc:
            log.warning("ledger_mark_not_read", error=str(exc))
    return found


async def compare_marks(settings: Settings, database: Database, stores: Sequence[MarkStore]) -> list[tuple[str, Mark]]:
    found = []
    for store in stores:
        kept = await store.read()
        if kept is None:
            continue
        is_here = await database.read(partial(is_of, kept=kept, place=place_of(settings)))
        finding = await database.read(partial(went_back, seen=kept.mark)) if is_here else None
        found += [] if finding is None else [(finding, kept.mark)]
    return found


def place_of(settings: Settings) -> str:
    """Where the ledger is, without secrets."""
    url = make_url(settings.database_url)
    if settings.is_embedded:
        return str(database_file(settings).resolve())
    hosts = url.query.get("host", "")
    # Of several hosts any may be the primary: which one is no other place.
    place = url.host or (hosts if isinstance(hosts, str) else ",".join(sorted(hosts)))
    return f"{place}:{url.port or 5432}/{url.database}"


def _file(settings: Settings) -> MarkFile:
    return MarkFile(settings.data / "ledger-mark.json")


@asynccontextmanager
async def _open_redis_mark(settings: Settings, database: Database) -> AsyncIterator[MarkStore]:
    # Imported only if Redis is configured, because its client is slow to import.
    from holdfast.gate.redis.client import open_client  # noqa: PLC0415 - see above
    from holdfast.gate.redis.evidence import RedisEvidence  # noqa: PLC0415 - see above

    client = open_client(settings.redis_url, timeout_s=settings.redis_timeout_ms / 1000)
    try:
        yield RedisEvidence(client, database)
    finally:
        await client.close()
