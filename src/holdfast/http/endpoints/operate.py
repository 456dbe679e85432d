"""Metrics, pool consistency and reconciliation."""

import os

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics import exposition as openmetrics
from sqlalchemy import Connection

from holdfast.bootstrap.lag import Lags
from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import NO_STORE, NOSNIFF
from holdfast.http.contract.schemas.inventory import PoolsOut, ReconciliationOut
from holdfast.http.contract.schemas.money import FullReconciliationOut, PaymentReportOut
from holdfast.http.endpoints.ops.store_metrics import StoreMetrics
from holdfast.ledger.events.deliveries import backlog as delivery_backlog
from holdfast.ledger.events.streams import KAFKA, stream_lag
from holdfast.ledger.money.settle_batch import backlog
from holdfast.ledger.stock.queries import PoolView, pool_queries
from holdfast.runtime import metrics
from holdfast.settlement.parked import count_parked

# Each pool is a handful of time series; beyond this many, a scrape would cost more than it tells.
MAX_POOLS_SHOWN = 1000
_END = b"# EOF\n"


class OperateEndpoints:
    def __init__(self, services: Services) -> None:
        self._database, self._reconciler = services.database, services.engine.reconciler
        self._store_metrics, self._lag = StoreMetrics(services), services.lag
        self._payment_audit, self._locked_pools = services.payments.audit, services.engine.locked_pools
        self._has_kafka, self._reads = services.settings.has_kafka, services.reads
        # They are traces, and only this format has them.
        self._has_exemplars = services.tracing is not None

    async def metrics(self, request: Request) -> Answer:
        await self._reads.read(self._read_gauges)
        self._show_lag(await self._lag.read())
        metrics.flush()
        registry = REGISTRY
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        found = await self._store_metrics.registry()
        if self._has_exemplars and "application/openmetrics-text" in (request.header("accept") or ""):
            parts = [openmetrics.generate_latest(each) for each in (registry, found)]  # type: ignore[no-untyped-call]
            body = b"".join(part.removesuffix(_END) for part in parts) + _END
            return Answer(200, [("content-type", openmetrics.CONTENT_TYPE_LATEST), NO_STORE, NOSNIFF], body)
        body = generate_latest(registry) + generate_latest(found)
        return Answer(200, [("content-type", CONTENT_TYPE_LATEST), NO_STORE, NOSNIFF], body)

    async def pools(self, _request: Request) -> Answer:
        reports = await self._reconciler.fresh_reports()
        return json(PoolsOut.of_server(reports, self._locked_pools.names()))

    async def reconcile(self, _request: Request) -> Answer:
        reports = ReconciliationOut.of((await self._reconciler.pass_once(thorough=True)).values())
        money = await self._payment_audit.look(thorough=True)
        return json(FullReconciliationOut(reports.ok, reports.data, PaymentReportOut.of(money)))

    def _show_lag(self, lags: Lags) -> None:
        """Replaces what agents have set, which is outdated where none runs."""
        metrics.EXPIRER_LAG_SECONDS.set(lags.sweeper.seconds)
        for sku_id, lag in list(lags.journal_by_pool.items())[:MAX_POOLS_SHOWN]:
            metrics.JOURNAL_LAG_ENTRIES.labels(sku_id).set(lag.items)

    def _read_gauges(self, connection: Connection) -> None:
        now = self._database.now_ms(connection)
        for view in pool_queries(self._database.dialect_name).all_views(connection, now, limit=MAX_POOLS_SHOWN):
            _show_pool(view)
        _show_settlement(connection, now)
        if self._has_kafka:
            waiting, since = stream_lag(connection, KAFKA)
            metrics.STREAM_LAG.labels(KAFKA).set(waiting)
            metrics.STREAM_OLDEST_SECONDS.labels(KAFKA).set(0 if since is None else (now - since) / 1000)
        for webhook_id, count, oldest in delivery_backlog(connection):
            metrics.WEBHOOK_BACKLOG.labels(webhook_id).set(count)
            metrics.WEBHOOK_OLDEST_SECONDS.labels(webhook_id).set(0 if oldest is None else (now - oldest) / 1000)


def _show_settlement(connection: Connection, now: int) -> None:
    count, oldest = backlog(connection)
    metrics.SETTLEMENT_BACKLOG.set(count)
    metrics.SETTLEMENT_OLDEST_SECONDS.set(0 if oldest is None else (now - oldest) / 1000)
    for kind, parked in count_parked(connection).items():
        metrics.PARKED.labels(kind).set(parked)


def _show_pool(view: PoolView) -> None:
    pool = view.pool
    for state, units in (("available", pool.available), ("held", pool.held), ("sold", pool.sold)):
        metrics.POOL_UNITS.labels(pool.sku_id, state).set(units)
    metrics.POOL_ACTIVE.labels(pool.sku_id).set(pool.active_reservations)
