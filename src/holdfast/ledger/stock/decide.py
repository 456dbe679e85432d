"""Decides a batch of commands for one pool in the database: the entry point for every change of stock."""

from collections.abc import Sequence
from time import perf_counter

from sqlalchemy import Connection

from holdfast.domain.stock.command import Command, Reserve, Verdict
from holdfast.domain.stock.pool_time import pool_time
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Changes, Decision, State
from holdfast.ledger.engine.clock import Clock
from holdfast.ledger.engine.limits import DEFAULT_LOCK, LockLimits
from holdfast.ledger.stock.batch import BatchQueries
from holdfast.runtime import metrics

NO_CHANGES = Changes()


def decide_batch(
    connection: Connection,
    queries: BatchQueries,
    clock: Clock,
    sku_id: str,
    commands: Sequence[Command],
    limits: LockLimits = DEFAULT_LOCK,
) -> Decision:
    """Lock the pool's row, read what the batch touches, decide, and write the changes."""
    locked = queries.lock(connection, sku_id, commands, limits)
    now = locked.now(connection, clock)
    state = queries.load(connection, locked, commands, now)
    decision = decide_timed(state, commands, now)
    queries.store(connection, locked, decision.changes, now)
    return decision


def decide_timed(state: State, commands: Sequence[Command], now: int) -> Decision:
    started = perf_counter()
    decision = decide(state, commands, now)
    metrics.DECIDE_SECONDS.observe(perf_counter() - started)
    return decision


def decide_without_lock(
    connection: Connection, queries: BatchQueries, clock: Clock, sku_id: str, attempts: Sequence[Reserve]
) -> list[Verdict] | None:
    """The verdicts on attempts, based on one snapshot; None if they would change anything."""
    state, decided_at = queries.see(connection, sku_id, attempts)
    now = pool_time(clock.now_ms(connection), decided_at)
    if any(reservation.is_due(now) for reservation in state.reservations.values()):
        return None
    decision = decide(state, attempts, now)
    return decision.verdicts if decision.changes == NO_CHANGES else None
