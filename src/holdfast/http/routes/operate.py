"""Health, metrics, and whether the books are right."""

import os

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import Connection, literal, select

from holdfast import metrics
from holdfast.http.money_schemas import FullReconciliationOut, payment_report_body
from holdfast.http.problems import not_working
from holdfast.http.routes.callers import OperatorKey, TheHouse, json_response
from holdfast.http.schemas import HealthOut, ReadyOut, ReconciliationOut, reconciliation_body
from holdfast.ledger.deliveries import backlog as delivery_backlog
from holdfast.ledger.queries import PoolQueries, PoolView
from holdfast.ledger.settle_batch import backlog
from holdfast.settlement.parked import count_parked

router = APIRouter(tags=["operate"])

# Each pool is a handful of time series; beyond this many, a scrape would cost more than it tells.
MAX_POOLS_SHOWN = 1000

_METRICS = """\
# HELP holdfast_pool_units Units by state. The three add up to the total.
# TYPE holdfast_pool_units gauge
holdfast_pool_units{sku_id="demo",state="available"} 498.0
holdfast_pool_units{sku_id="demo",state="held"} 2.0
holdfast_pool_units{sku_id="demo",state="sold"} 0.0
…"""


@router.head("/healthz/live", include_in_schema=False)
@router.get("/healthz/live", response_model=HealthOut, summary="The process runs")
async def live() -> Response:
    return json_response({"status": "live"})


@router.head("/healthz/ready", include_in_schema=False)
@router.get("/healthz/ready", response_model=ReadyOut, summary="Requests can be served")
async def ready(house: TheHouse) -> Response:
    if house.agents.ended:
        raise not_working(house.agents.ended)
    await house.database.read(lambda connection: connection.execute(select(literal(1))).scalar())
    if house.engine.link is not None:
        await house.engine.link.call_everywhere(["PING"])
    door = house.door
    return json_response(
        {"status": "ready", "switched_off": door.shedder.switched_off, "not_answering": door.open_breakers}
    )


@router.get(
    "/metrics",
    dependencies=[OperatorKey],
    response_class=PlainTextResponse,
    summary="Metrics for Prometheus",
    responses={200: {"description": "In Prometheus' text format", "content": {"text/plain": {"example": _METRICS}}}},
)
async def get_metrics(house: TheHouse) -> Response:
    for view in await house.database.read(lambda connection: _all_pools(connection, house)):
        _show(view)
    await _show_backlog(house)
    await house.database.read(lambda connection: _show_money(connection, house))
    metrics.flush()
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@router.get(
    "/v1/ops/pools",
    response_model=ReconciliationOut,
    dependencies=[OperatorKey],
    summary="Every pool: does it add up, and do gate and ledger agree?",
)
async def get_pools(house: TheHouse) -> Response:
    """As found at the last look, which is seconds old where background work runs, or now if there was none."""
    reconciler = house.engine.reconciler
    reports = reconciler.reports or await reconciler.pass_once()
    return json_response(reconciliation_body(reports.values()))


@router.post(
    "/v1/ops/reconcile",
    response_model=FullReconciliationOut,
    dependencies=[OperatorKey],
    summary="Check every pool and every payment now",
)
async def reconcile(house: TheHouse) -> Response:
    """`ok` is about the pools; `payments.ok` about money. What can be mended is, or will be within seconds."""
    reports = await house.engine.reconciler.pass_once(thorough=True)
    money = await house.cashier.audit.look(thorough=True)
    return json_response(reconciliation_body(reports.values()) | {"payments": payment_report_body(money)})


def _all_pools(connection: Connection, house: TheHouse) -> list[PoolView]:
    now = house.database.now_ms(connection)
    return PoolQueries(house.database.dialect_name).all_views(connection, now, limit=MAX_POOLS_SHOWN)


def _show_money(connection: Connection, house: TheHouse) -> None:
    count, oldest = backlog(connection)
    age = 0 if oldest is None else house.database.now_ms(connection) - oldest
    metrics.SETTLEMENT_BACKLOG.set(count)
    metrics.SETTLEMENT_OLDEST_SECONDS.set(age / 1000)
    for kind, parked in count_parked(connection).items():
        metrics.PARKED.labels(kind).set(parked)


def _show(view: PoolView) -> None:
    pool = view.pool
    for state, units in (("available", pool.available), ("held", pool.held), ("sold", pool.sold)):
        metrics.POOL_UNITS.labels(pool.sku_id, state).set(units)
    metrics.POOL_ACTIVE.labels(pool.sku_id).set(pool.active_reservations)


async def _show_backlog(house: TheHouse) -> None:
    now, waiting = await house.database.read(lambda c: (house.database.now_ms(c), delivery_backlog(c)))
    for webhook_id, count, oldest in waiting:
        metrics.WEBHOOK_BACKLOG.labels(webhook_id).set(count)
        metrics.WEBHOOK_OLDEST_SECONDS.labels(webhook_id).set(0 if oldest is None else (now - oldest) / 1000)
