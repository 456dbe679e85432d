"""What operators watch: a sale while it sells, and everything it depends on."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from sqlalchemy import literal, select

from holdfast import __version__
from holdfast.bootstrap import House
from holdfast.errors import EngineError
from holdfast.http.console.live import LiveBoard, load_of
from holdfast.http.console_schemas import LiveOut, SystemHealthOut
from holdfast.http.routes.callers import IdentifiedRoute, OperatorKey, TheHouse
from holdfast.http.sale_schemas import SaleId
from holdfast.settlement.parked import count_parked

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/ops", tags=["operate"], dependencies=[OperatorKey])


def _no_store(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), headers={"cache-control": "no-store"}, media_type="application/json")


@router.get("/sales/{sale_id}/live", response_model=LiveOut, summary="A sale while it sells: look every second")
async def show_live(sale_id: SaleId, request: Request, house: TheHouse) -> Response:
    """Made at most twice a second, however many watch. Counts are of all server processes since the pool was made."""
    if not hasattr(request.app.state, "live_board"):
        request.app.state.live_board = LiveBoard(house)
    board: LiveBoard = request.app.state.live_board
    return _no_store(await board.show(sale_id))


@router.get("/health", response_model=SystemHealthOut, summary="Each thing the server depends on")
async def show_health(house: TheHouse) -> Response:
    """Stores are asked now; payment providers are as the last payments found them."""
    found = [await _asked(house.database.dialect_name, "store", lambda: _ask_database(house))]
    if (link := house.engine.link) is not None:
        found.append(await _asked("redis", "gate", lambda: link.call_everywhere(["PING"])))
    found += _providers(house) + _agents(house)
    is_ok = all(dependency["ok"] for dependency in found)
    parked, load = await _parked(house), load_of(house)
    return _no_store({"ok": is_ok, "version": __version__, "data": found, "load": load, "parked": parked})


async def _parked(house: House) -> dict[str, int]:
    try:
        return await house.database.read(count_parked)
    except EngineError:
        return {}


def _ask_database(house: House) -> Awaitable[object]:
    return house.database.read(lambda connection: connection.execute(select(literal(1))).scalar())


async def _asked(name: str, kind: str, ask: Callable[[], Awaitable[object]]) -> dict[str, Any]:
    started = perf_counter()
    try:
        await ask()
    except EngineError as exc:
        return _dependency(name, kind, ok=False, detail=str(exc))
    return _dependency(name, kind, ok=True, detail="answers", ms=round((perf_counter() - started) * 1000, 1))


def _providers(house: House) -> list[dict[str, Any]]:
    return [
        _dependency(breaker.name, "payment", ok=breaker.is_closed, detail=f"calls are let through: {breaker.state}")
        for breaker in house.cashier.breakers
    ]


def _agents(house: House) -> list[dict[str, Any]]:
    ended = set(house.agents.ended)
    return [
        _dependency(
            name, "agent", ok=name not in ended, detail="has ended, restart the server" if name in ended else "runs"
        )
        for name in house.agents.names
    ]


def _dependency(name: str, kind: str, *, ok: bool, detail: str, ms: float | None = None) -> dict[str, Any]:
    return {"name": name, "kind": kind, "ok": ok, "detail": detail, "answered_in_ms": ms}
