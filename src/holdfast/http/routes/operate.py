"""Health and metrics."""

import os

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import Connection, literal, select

from holdfast import metrics
from holdfast.http.routes.callers import OperatorKey, TheHouse, json_response
from holdfast.http.schemas import HealthOut
from holdfast.ledger.queries import PoolQueries, PoolView

router = APIRouter(tags=["operate"])

# Each pool is a handful of time series; beyond this many, a scrape would cost more than it tells.
MAX_POOLS_SHOWN = 1000


@router.get("/healthz/live", response_model=HealthOut, summary="The process runs")
async def live() -> Response:
    return json_response({"status": "live"})


@router.get("/healthz/ready", response_model=HealthOut, summary="Requests can be served")
async def ready(house: TheHouse) -> Response:
    await house.database.read(lambda connection: connection.execute(select(literal(1))).scalar())
    return json_response({"status": "ready"})


@router.get("/metrics", dependencies=[OperatorKey], response_class=Response, summary="Metrics for Prometheus")
async def get_metrics(house: TheHouse) -> Response:
    for view in await house.database.read(lambda connection: _all_pools(connection, house)):
        _show(view)
    metrics.flush_requests()
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _all_pools(connection: Connection, house: TheHouse) -> list[PoolView]:
    now = house.database.now_ms(connection)
    return PoolQueries(house.database.dialect_name).all_views(connection, now, limit=MAX_POOLS_SHOWN)


def _show(view: PoolView) -> None:
    pool = view.pool
    for state, units in (("available", pool.available), ("held", pool.held), ("sold", pool.sold)):
        metrics.POOL_UNITS.labels(pool.sku_id, state).set(units)
    metrics.POOL_ACTIVE.labels(pool.sku_id).set(pool.active_reservations)
