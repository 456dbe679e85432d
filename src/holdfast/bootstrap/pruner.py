"""Deletes what is no longer needed, subject by subject."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.ledger.access.revocations import prune_revocations
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.heartbeats import prune_heartbeats
from holdfast.ledger.events.deliveries import prune_deliveries, prune_parked
from holdfast.ledger.events.outages import prune_outages
from holdfast.ledger.events.refusal_batches import prune_refusals
from holdfast.ledger.events.traces import prune_traces
from holdfast.ledger.messages.message_log import prune_messages
from holdfast.ledger.room.challenges import prune_spent
from holdfast.ledger.room.device_accounts import prune_devices
from holdfast.ledger.room.rooms import prune_slowness
from holdfast.ledger.sales.pruning import SalePruner
from holdfast.ledger.sales.quotes import prune_quotes, prune_unused_quotes
from holdfast.ledger.stock.pruning import LEAST_KEPT_MS, ReservationPruner
from holdfast.ledger.stock.queries import KEYS_KEPT_MS, prune_keys
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent

PRUNE_INTERVAL_S = 60.0
PRUNE_LIMIT = 2_000


class Retention(Struct, frozen=True):
    """`prune` deletes at most `limit` rows older than a moment, and returns how many it deleted."""

    prune: Callable[..., int]
    kept_ms: int


RETENTIONS = (
    Retention(prune_keys, KEYS_KEPT_MS),
    # Long enough to find out why a receiver missed something, and to send it again.
    Retention(prune_deliveries, 7 * 24 * 3_600_000),
    # The log of messages: long enough for somebody who asks after a confirmation.
    Retention(prune_messages, 30 * 24 * 3_600_000),
    # A challenge expires by the host's clock and is deleted by the engine's, which may differ.
    Retention(prune_spent, 3_600_000),
    # Longer than people stand in line.
    Retention(prune_devices, 30 * 24 * 3_600_000),
    # A late purchase is told that its quote has expired.
    Retention(prune_unused_quotes, 600_000),
    # So long a purchase may be repeated to find out what it was granted.
    Retention(prune_quotes, KEYS_KEPT_MS),
    # Deliveries are retried for about a day; what comes later begins a trace of its own.
    Retention(prune_traces, 2 * 24 * 3_600_000),
    # They have expired; what came of them is in the record of what operators did.
    Retention(prune_revocations, 60_000),
    # A measurement of the gate's latency is used for two seconds.
    Retention(prune_slowness, 60_000),
    # A process that has not written for this long has ended.
    Retention(prune_heartbeats, 60_000),
    # Longer than anybody waits with the report of a sale.
    Retention(prune_outages, 90 * 24 * 3_600_000),
)


DAY_MS = 24 * 3_600_000
AUDIT_DAYS = 30


def retentions_of(keep_days: int, audit_days: int = AUDIT_DAYS, *, has_archive: bool = False) -> tuple[Retention, ...]:
    """With `keep_days` also what is left of sales that closed, reservations that came to nothing, and deliveries that
    nobody dealt with. With an archive, `holdfast archive` deletes reservations, once they are in it, and lines stay:
    they are in no archive."""
    always = (*RETENTIONS, Retention(prune_refusals, audit_days * DAY_MS))
    if not keep_days:
        return always
    kept_ms = max(keep_days * DAY_MS, LEAST_KEPT_MS)
    of_sales = SalePruner(kept_ms, keeps_lines=has_archive).prune
    subjects = [*([] if has_archive else [ReservationPruner().prune]), of_sales, prune_parked]
    return (*always, *[Retention(prune, kept_ms) for prune in subjects])


class Pruner:
    def __init__(self, database: Database, retentions: Sequence[Retention] = RETENTIONS) -> None:
        self._database = database
        self._retentions = retentions

    def agent(self) -> Agent[int]:
        return Agent("pruner", self.pass_once, PRUNE_INTERVAL_S, rest_s=_rest_s, longest_pass_s=THOROUGH_PASS_S)

    async def pass_once(self) -> int:
        """Returns the largest number of rows deleted for one subject."""
        return max([await self._database.write(self._work(each)) for each in self._retentions])

    def _work(self, retention: Retention) -> Callable[[Connection], int]:
        def work(connection: Connection) -> int:
            older_than = self._database.now_ms(connection) - retention.kept_ms
            return retention.prune(connection, older_than, limit=PRUNE_LIMIT)

        return work


def _rest_s(deleted: int) -> float:
    """There is more to delete if the limit was reached."""
    return 0.0 if deleted == PRUNE_LIMIT else PRUNE_INTERVAL_S
