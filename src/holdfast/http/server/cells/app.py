"""The router above the cells. It picks the application that answers, and has no state but the map.

A sale, a SKU or a reservation in the path determines the cell (`CellMap`). The request then goes to the application of
that cell as if there were no other. Everything else goes to the application of the control database, which has the
keys, operators and webhooks; some of its endpoints ask all cells (`lists.py`) or choose one (`placing.py`). What is on
no map goes there too: it has no sales, and answers 404.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from holdfast.bootstrap.cells.cell_map import CellMap
from holdfast.bootstrap.cells.settings import all_cells
from holdfast.bootstrap.services import Services, open_services
from holdfast.errors import EngineError
from holdfast.http.contract import cell_problems, problems
from holdfast.http.contract.endpoint import Endpoint, IfUnknown
from holdfast.http.contract.endpoints import drops, inventory, money, operate, reservations, sales, webhooks
from holdfast.http.contract.message import Answer, Request, json, refuse
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import from_engine
from holdfast.http.contract.schemas.operate import CheckOut, FeatureOut, FeaturesOut, ReadyOut
from holdfast.http.endpoints.ops.features import CAPABILITIES
from holdfast.http.protection.admission import build_admission
from holdfast.http.server.app import App
from holdfast.http.server.cells.cell import Cell
from holdfast.http.server.cells.lists import CellLists
from holdfast.http.server.cells.placing import Placing
from holdfast.http.server.router import Found, Handler
from holdfast.http.server.traced_app import build_app
from holdfast.settings import Settings

_IN_ONE_CELL = frozenset({"sale_id", "sku_id", "reservation_id", "drop_id"})


class CellsApp:
    """The application of a server with cells, in place of an `App`."""

    def __init__(self, control: App, cells: Mapping[str, Cell], cell_map: CellMap) -> None:
        self._control, self._cells, self.cell_map = control, cells, cell_map

    async def answer(self, request: Request) -> Answer | None:
        found = self._control.find(request)
        if found is None or found.route.endpoint is inventory.PUT_POOL:
            return await self._control.answer(request)
        try:
            cell = await self._cell_of(found)
        except (EngineError, Problem) as exc:
            answer = refuse(exc if isinstance(exc, Problem) else from_engine(exc, IfUnknown.REPEAT))
            answer.headers.append(("x-request-id", request.request_id))
            return answer
        return await (self._control if cell is None else cell).answer(request)

    async def _cell_of(self, found: Found) -> Cell | None:
        parameters = found.route.endpoint.path_parameters
        if not parameters or parameters[0] not in _IN_ONE_CELL:
            return None
        placed = await self.cell_map.find(parameters[0], found.values[0])
        if placed is None:
            return None
        if placed.is_moving:
            raise Problem(cell_problems.CELL_MOVING, cell=placed.cell)
        if placed.cell not in self._cells:
            raise Problem(cell_problems.CELL_UNAVAILABLE, cell=placed.cell)
        return self._cells[placed.cell]

    def refuse_unread(self, problem: Problem, request_id: str | None) -> Answer:
        return self._control.refuse_unread(problem, request_id)

    def end_streams(self) -> None:
        for app in self._apps():
            app.end_streams()

    async def finish(self) -> None:
        await asyncio.gather(*[app.finish() for app in self._apps()])

    def _apps(self) -> list[App]:
        return [self._control, *[cell.app for cell in self._cells.values() if cell.app is not None]]


class CellHealth:
    def __init__(self, services: Services, cells: Mapping[str, Cell]) -> None:
        self._services, self._cells = services, cells

    async def ready(self, _request: Request) -> Answer:
        """Ready while one cell sells: failures of another cell must not take this server out of service."""
        checks = {f"cell {name}": cell.check for name, cell in self._cells.items()}
        lost = [name for name, cell in self._cells.items() if not checks[f"cell {name}"].ok]
        control = {f"control {name}": CheckOut.of(check) for name, check in self._services.checks.items()}
        shown = checks | {"control": control[f"control {self._services.database.dialect_name}"]}
        if len(lost) == len(self._cells):
            raise Problem(problems.NOT_READY, "No cell sells.", checks=shown)
        status = "ready" if all(check.ok for check in shown.values()) else "degraded"
        return json(ReadyOut(status, shown, [], [f"cell {name}" for name in lost]))

    async def features(self, _request: Request) -> Answer:
        """A feature is on if some cell has it: the edge must not refuse everybody because of one cell."""
        found = {name: self._feature(name) for name in CAPABILITIES}
        return json(FeaturesOut(found, [name for name, feature in found.items() if not feature.enabled]))

    def _feature(self, name: str) -> FeatureOut:
        opened = [cell.services for cell in self._cells.values() if cell.services is not None]
        usable = [services.checks[name] for services in opened if not services.lag_guard.is_shedding]
        if any(check.ok for check in usable):
            return FeatureOut(True)
        return FeatureOut(False, usable[0].reason if usable else "unavailable")


def _instead(services: Services, cells: Mapping[str, Cell], cell_map: CellMap) -> dict[Endpoint, Handler]:
    """The endpoints that more than one cell answers, or that choose one."""
    lists, placing, health = CellLists(cells), Placing(cells, cell_map), CellHealth(services, cells)
    return {
        sales.CREATE_SALE: placing.create_sale,
        drops.CREATE_DROP: placing.create_drop,
        drops.LIST_DROPS: lists.drops,
        inventory.PUT_POOL: placing.put_pool,
        money.CREDIT_WALLET: placing.credit_wallet,
        sales.LIST_SALES: lists.sales,
        reservations.LIST_RESERVATIONS: lists.reservations,
        money.LIST_ORDERS: lists.orders,
        money.GET_ORDER: lists.anywhere,
        money.FULFIL_ORDER: lists.anywhere,
        money.REFUND_ORDER: lists.anywhere,
        money.GET_WALLET: lists.wallet,
        money.SANDBOX_WEBHOOK: lists.everywhere,
        money.STRIPE_WEBHOOK: lists.everywhere,
        operate.GET_POOLS: lists.everything,
        operate.RECONCILE: lists.everything,
        operate.LIST_PARKED: lists.everything,
        operate.RETRY_PARKED: lists.anywhere,
        operate.RETRY_ALL_PARKED: lists.everything,
        operate.DROP_PARKED: lists.anywhere,
        operate.GET_AUDIT: lists.everything,
        webhooks.LIST_DELIVERIES: lists.everything,
        webhooks.REPLAY: lists.everything,
        operate.READY: health.ready,
        operate.FEATURES: health.features,
    }


@asynccontextmanager
async def open_app(settings: Settings, *, background: bool) -> AsyncIterator[tuple[Services, App | CellsApp]]:
    """The application of a server, with or without cells."""
    if settings.cells:
        async with open_cells(settings, background=background) as opened:
            yield opened
    else:
        async with open_services(settings, background=background) as services:
            yield services, build_app(services)


@asynccontextmanager
async def open_cells(settings: Settings, *, background: bool) -> AsyncIterator[tuple[Services, CellsApp]]:
    """The services of the control database, and an application over all cells. Waits for the control database only."""
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(open_services(settings, background=background))
        cell_map = CellMap(services.database)
        await cell_map.refresh()
        services.agents.start(cell_map.agent())
        admission = build_admission(settings)
        cells = {
            name: Cell(name, given, admission, services.control, cell_map, background=background)
            for name, given in all_cells(settings).items()
        }
        for cell in cells.values():
            stack.push_async_callback(cell.close)
        await asyncio.gather(*[cell.wait() for cell in cells.values()])
        control = build_app(services, admission, _instead(services, cells, cell_map))
        yield services, CellsApp(control, cells, cell_map)
