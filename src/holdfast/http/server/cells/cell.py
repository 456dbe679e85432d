"""One cell as the router sees it: an application with its own stores, or none while they are unavailable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
from msgspec import structs

from holdfast.bootstrap.cells.cell_map import CellMap
from holdfast.bootstrap.cells.opening import Opening, opened_as
from holdfast.bootstrap.cells.webhook_copies import WebhookCopies
from holdfast.bootstrap.control import Control
from holdfast.bootstrap.services import Services, open_services
from holdfast.http.contract import cell_problems
from holdfast.http.contract.message import Answer, Request, encode, refuse
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import CheckOut
from holdfast.http.protection.admission import AdmissionControl, cell_admission
from holdfast.http.server.app import App
from holdfast.http.server.traced_app import build_app
from holdfast.ledger.cells.own import Load, load_of, owned_by
from holdfast.runtime.readiness import SELLING
from holdfast.settings import Settings

# How long a list waits for a cell: longer than any working cell takes, shorter than buyers' patience.
DEADLINE_S = 1.0
_STORES_DOWN = frozenset({"not_ready", "busy", "outcome_unknown"})


class Open:
    """The parts of an open cell."""

    def __init__(self, services: Services, app: App) -> None:
        self.services, self.app = services, app


class Cell:
    def __init__(
        self,
        name: str,
        settings: Settings,
        shared: AdmissionControl,
        control: Control,
        cell_map: CellMap,
        *,
        background: bool,
    ) -> None:
        self.name = name
        self._settings, self._shared, self._map, self._background = settings, shared, cell_map, background
        services = partial(open_services, settings, background=background, control=structs.replace(control, cell=name))
        self._services = partial(opened_as, name, settings, services)
        self._opening: Opening[Open] = Opening(name, self._opened)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Open]:
        async with self._services() as services:
            if self._background:
                services.agents.start(WebhookCopies(services.control.database, services.database).agent())
            await self._map.adopt(self.name, await services.database.read(partial(owned_by, cell=self.name)))
            app = build_app(services, cell_admission(self._settings, self._shared))
            try:
                yield Open(services, app)
            finally:
                await app.finish()

    async def wait(self) -> None:
        await self._opening.wait()

    async def close(self) -> None:
        await self._opening.close()

    @property
    def app(self) -> App | None:
        return None if self._opening.value is None else self._opening.value.app

    @property
    def services(self) -> Services | None:
        return None if self._opening.value is None else self._opening.value.services

    @property
    def check(self) -> CheckOut:
        """Whether it sells."""
        services = self.services
        if services is None:
            return CheckOut(ok=False, age_ms=0, reason="unavailable")
        if services.agents.ended:
            return CheckOut(ok=False, age_ms=0, reason="background_stopped")
        if services.database.guard.finding is not None:
            return CheckOut(ok=False, age_ms=0, reason="ledger_went_back")
        return CheckOut.of(services.checks[SELLING])

    async def answer(self, request: Request) -> Answer | None:
        """The response of its application. A refusal because the cell is lost names the cell."""
        app = self.app
        if app is None:
            answer = refuse(self.unavailable())
            answer.headers.append(("x-request-id", request.request_id))
            return answer
        found = await app.answer(request)
        return found if found is None or found.status != 503 or found.stream is not None else self._named(found)

    async def ask(self, request: Request) -> Answer | None:
        """For a list. None if it does not answer in time, or cannot. Writes have no timeout here: if they were cut off,
        the outcome would be unknown."""
        app = self.app
        if app is None:
            return None
        try:
            async with asyncio.timeout(DEADLINE_S if request.method == "GET" else None):
                answer = await app.ask(request)
        except TimeoutError:
            return None
        return None if answer.status >= 500 else answer

    async def forward(self, request: Request) -> Answer:
        """Carries out a request that the router has admitted."""
        app = self.app
        if app is None:
            raise self.unavailable()
        answer = await app.ask(request)
        return self._named(answer) if answer.status == 503 else answer

    async def load(self) -> Load | None:
        services = self.services
        if services is None or not self.check.ok:
            return None
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await services.database.read(load_of)
        except Exception:
            return None

    def unavailable(self) -> Problem:
        return Problem(cell_problems.CELL_UNAVAILABLE, cell=self.name)

    def _named(self, answer: Answer) -> Answer:
        document = msgspec.json.decode(answer.body)
        document["cell"] = self.name
        if document["reason"] in _STORES_DOWN and not self.check.ok:
            kind = cell_problems.CELL_UNAVAILABLE
            # The statement about the request stays: whether something may have happened, and how to retry.
            document |= kind.document(detail=f"{kind.detail} {document['detail']}", retryable=document["retryable"])
        answer.body = encode(document)
        return answer
