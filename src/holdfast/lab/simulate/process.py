"""One process of the system: the product's own services and background work on a simulated host.

It may crash at any step, and restarts a while later with empty memory.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from holdfast.bootstrap.background import background_agents
from holdfast.bootstrap.heartbeat import LedgerHeartbeat, build_readiness
from holdfast.bootstrap.payments import PaymentServices, build_payment_services
from holdfast.bootstrap.services import Services, build_services
from holdfast.errors import EngineError
from holdfast.gate.engine import Engine
from holdfast.http.server.app import App
from holdfast.lab.simulate.ledger.server import SimulatedDatabase
from holdfast.lab.simulate.loop import Host, SimulatedLoop
from holdfast.lab.simulate.trace import Trace
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.watch import LedgerWatch
from holdfast.payments.guarded import GuardedProvider
from holdfast.payments.port import PaymentProvider
from holdfast.room.wakeup import Wakeup
from holdfast.runtime.agent import Agent, Agents
from holdfast.settings import Settings
from holdfast.webhooks.sender import Sender

T = TypeVar("T")

START_AGAIN_S = 0.2


class Parts:
    """Dependencies shared by the processes of a run."""

    def __init__(
        self,
        loop: SimulatedLoop,
        trace: Trace,
        settings: Settings,
        open_database: Callable[[], SimulatedDatabase],
        open_engine: Callable[[Settings, Database], Awaitable[Engine]],
        open_provider: Callable[[], PaymentProvider],
        open_sender: Callable[[], Sender],
        open_watch: Callable[[str, Database, Engine], LedgerWatch] | None,
        agents: frozenset[str],
        *,
        is_http: bool,
    ) -> None:
        self.is_http = is_http
        self.loop, self.trace, self.settings, self.agents = loop, trace, settings, agents
        self.open_database, self.open_engine = open_database, open_engine
        self.open_provider, self.open_sender, self.open_watch = open_provider, open_sender, open_watch


class NoRecorder:
    """In production a thread writes refusals to files, which is out of scope here."""

    def note(self, *_facts: object) -> None: ...
    def note_reason(self, *_facts: object) -> None: ...
    def count_shed(self, _reason: str) -> None: ...


class Process:
    def __init__(self, parts: Parts, name: str, *, is_worker: bool) -> None:
        self.name, self._is_worker, self._parts = name, is_worker, parts
        self.host = Host(name)
        self.is_up = asyncio.Event()
        self.services: Services | None = None
        self.app: App | None = None
        self.database: SimulatedDatabase | None = None

    @property
    def running(self) -> Services:
        assert self.services is not None
        return self.services

    def start(self) -> None:
        wall_step_ms, on_crash = self.host.wall_step_ms, self.host.on_crash
        self.host = Host(self.name)
        self.host.wall_step_ms, self.host.on_crash = wall_step_ms, on_crash
        self.services = self.app = None
        self._parts.loop.run_on(self.host, self._start())

    async def _start(self) -> None:
        parts = self._parts
        self.database = database = parts.open_database()
        await _repeat(lambda: database.read(database.now_ms))
        engine, wakeup = await _repeat(lambda: parts.open_engine(parts.settings, database)), Wakeup()
        payments = build_payment_services(
            parts.settings, database, engine, {"sandbox": GuardedProvider("sandbox", parts.open_provider())}
        )
        agents = Agents()
        readiness = build_readiness("sqlite", has_redis=parts.settings.has_redis)
        services = build_services(
            parts.settings, database, engine, agents, cast("Any", NoRecorder()), payments, wakeup, readiness
        )
        if parts.open_watch is not None:
            watch = parts.open_watch(self.name, database, engine)
            await _repeat(watch.start)
            agents.start(watch.agent())
        heartbeat = LedgerHeartbeat(database, agents, readiness, has_redis=parts.settings.has_redis).agent()
        if heartbeat.name in parts.agents:
            agents.start(heartbeat)
        if self._is_worker:
            self._start_background(services, payments, wakeup)
        else:
            found: list[Agent[Any]] = [services.catalogue.agent(), services.room_snapshot.agent()]
            found.append(services.arrival_stager.agent())
            for agent in found:
                if agent.name in parts.agents:
                    agents.start(agent)
            self.app = App(services) if parts.is_http else None
        self.services = services
        self.is_up.set()
        parts.trace.note("started")

    def _start_background(self, services: Services, payments: PaymentServices, wakeup: Wakeup) -> None:
        parts = self._parts
        found = background_agents(
            parts.settings, services.database, services.engine, payments, wakeup, parts.open_sender()
        )
        for agent in found:
            if agent.name in parts.agents:
                services.agents.start(agent)


async def _repeat(work: Callable[[], Awaitable[T]]) -> T:
    """Retries until the stores respond, like a server that starts before them."""
    while True:
        try:
            return await work()
        except EngineError:
            await asyncio.sleep(START_AGAIN_S)


@cache
def settings_of(*, has_redis: bool) -> Settings:
    """Only the settings that matter here. Timeouts are short, so that leases run out quickly."""
    return Settings(
        data=Path("simulated"),
        database_url="postgresql://simulated/simulated",
        redis_url="redis://simulated" if has_redis else "",
        service_key="hf_" + "s" * 20,
        buyer_secret="b" * 32,
        signing_key="k" * 32,
        payment_sandbox_url="http://sandbox.invalid",
        payment_timeout_ms=2_000,
        # The load of this machine must not matter.
        shed_host_percent=0,
    )
