"""Everything that exists in one run, and the faults injected into it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from holdfast.bootstrap.recovery import Decision
from holdfast.bootstrap.stores import sql_engine
from holdfast.domain.sale.sale import PaymentKind
from holdfast.errors import EngineError
from holdfast.gate.engine import Engine
from holdfast.gate.redis.wiring import redis_engine
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.lab.simulate.buyers.api import Api
from holdfast.lab.simulate.buyers.buyer import Buyer, Told
from holdfast.lab.simulate.buyers.line import Stood
from holdfast.lab.simulate.channel import Channel
from holdfast.lab.simulate.faults import FORGETFUL, OF_CLOCKS, Fault, Kind
from holdfast.lab.simulate.invariants import Violation, check_stock, unfinished
from holdfast.lab.simulate.ledger.recovery import Evidence, SimulatedWatch, recover
from holdfast.lab.simulate.ledger.server import LedgerServer, SimulatedDatabase
from holdfast.lab.simulate.line_invariants import LineWatch
from holdfast.lab.simulate.loop import Host, SimulatedLoop
from holdfast.lab.simulate.process import Parts, Process, settings_of
from holdfast.lab.simulate.provider import InMemory, SimulatedProvider
from holdfast.lab.simulate.receiver import Receiver, SimulatedSender
from holdfast.lab.simulate.redis_model.server import OF_HOLDS, RedisServer, SimulatedLink
from holdfast.lab.simulate.scenario import Scenario
from holdfast.lab.simulate.trace import Trace
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.watch import LedgerWatch
from holdfast.settings import Settings

# How long it takes an operator to react to the alarm.
OPERATOR_S = 4.0
_STORES = {"ledger": ("gate", "settling", "write", "read"), "redis": ("batch", "redis")}
_LATENCY_S = {
    "gate": (0.0003, 0.004),
    "settling": (0.0003, 0.004),
    "write": (0.0003, 0.004),
    "read": (0.0002, 0.002),
    "payments": (0.01, 0.2),
    "batch": (0.0002, 0.003),
    "redis": (0.0002, 0.002),
    "webhooks": (0.005, 0.1),
    "api": (0.001, 0.02),
}


class World:
    def __init__(
        self,
        loop: SimulatedLoop,
        trace: Trace,
        scenario: Scenario,
        rng: Random,
        engine: str,
        faults: Sequence[Fault],
    ) -> None:
        """`faults` are those that will be injected."""
        self.loop, self.trace, self.scenario, self._rng = loop, trace, scenario, rng
        self._kinds = {fault.kind for fault in faults}
        self.violations: list[Violation] = []
        self.told: list[Told] = []
        self.stood: list[Stood] = []
        self._line = None if scenario.room is None else LineWatch(scenario.room.rate_per_second)
        self.settings = settings_of(has_redis=engine == "redis")
        self.server = LedgerServer(loop, rng)
        self.server.on_commit = self._check_stock
        self.channels = {
            name: self._channel(name)
            for name in ("gate", "batch", "redis", "settling", "write", "read", "payments", "webhooks")
        }
        self.redis = RedisServer(loop, rng) if engine == "redis" else None
        if self.redis is not None:
            self.redis.on_batch = self._check_redis
        # Reservations that Redis lost before the ledger had them, and those that Redis held when the ledger went back.
        self.lost: set[str] = set()
        self.kept: set[str] = set()
        self.api = Api("api", loop, rng, trace, _LATENCY_S["api"])
        self.channels["api"] = self.api
        self.books = SandboxLedger(InMemory(), lambda _: None)  # type: ignore[arg-type]
        self.receiver = Receiver()
        self.webhook_since = 0
        self.evidence = Evidence()
        self.decision: Decision | None = None
        # Whether a process may have forgotten what it acknowledged.
        self.has_lost_witnesses = False
        self.is_redis_whole = True
        parts = self._parts()
        self.apis = [Process(parts, f"api-{number}", is_worker=False) for number in range(scenario.apis)]
        self.workers = [Process(parts, f"worker-{number}", is_worker=True) for number in range(scenario.workers)]
        self.processes = {process.name: process for process in [*self.apis, *self.workers]}
        self.is_healed = False

    def _channel(self, name: str) -> Channel:
        return Channel(name, self.loop, self._rng, self.trace, _LATENCY_S[name])

    def _parts(self) -> Parts:
        """Idle agents take most of a run's time, so a run starts only the agents that have work in it."""
        agents = {"expirer", "settler", "reconciler", "drainer"}
        if self.scenario.payment is PaymentKind.SANDBOX:
            agents |= {"refunder"}
        # It also restores a pool's rules that the ledger lost, or that Redis lost before the ledger had them.
        renews = self.redis is not None and (self.scenario.goes_back or not FORGETFUL.isdisjoint(self._kinds))
        if self.scenario.ends_s is not None or renews:
            agents |= {"sale_lifecycle", "catalogue"}
        if self.scenario.has_webhook:
            agents |= {"relay", "deliverer"}
        if self.scenario.room is not None:
            agents |= {"line_advancer", "room_snapshot", "catalogue", "arrival_stager"}
        # A process compares the time with heartbeats when it starts.
        if not OF_CLOCKS.isdisjoint(self._kinds):
            agents |= {"heartbeat"}
        return Parts(
            self.loop,
            self.trace,
            self.settings,
            self.open_database,
            self._open_engine,
            self._open_provider,
            lambda: SimulatedSender(self.channels["webhooks"], self.receiver),
            self._open_watch if self.scenario.goes_back else None,
            frozenset(agents),
            is_http=self.scenario.is_http,
        )

    async def _open_engine(self, settings: Settings, database: Database) -> Engine:
        if self.redis is None:
            return sql_engine(database)
        link = SimulatedLink(self.redis, self.channels["batch"], self.channels["redis"])
        return await redis_engine(
            database, link.client(), fsync="always", replicas_min=0, journal_max=settings.shed_lag_max
        )

    def _open_watch(self, process: str, database: Database, engine: Engine) -> LedgerWatch:
        return SimulatedWatch(process, database, engine, self.evidence)

    def _open_provider(self) -> SimulatedProvider:
        return SimulatedProvider(self.books, self.channels["payments"], self.settings.payment_timeout_ms / 1000)

    def open_database(self) -> SimulatedDatabase:
        return SimulatedDatabase(self.server, self.channels)

    def buyers(self) -> list[Buyer]:
        return [
            Buyer(one, self.scenario, self.api, self.any_api, self.told, self.stood) for one in self.scenario.shoppers
        ]

    def any_api(self) -> Process:
        return self._rng.choice(self.apis)

    def violated(self, invariant: str, detail: str) -> None:
        self.trace.note("VIOLATION", invariant, detail)
        self.violations.append(Violation(invariant, detail))

    def log(self, event: str, **facts: Any) -> None:
        """The product's log. A failure that is not an outage is a defect."""
        exc = facts.pop("exc_info", None)
        about = " ".join(f"{name}={value}" for name, value in facts.items())
        self.trace.note("log", event, about, "" if exc is None else repr(exc))
        if isinstance(exc, BaseException) and not self.loop.is_ending:
            self.violated("no_defects", f"{event}: {exc!r}")

    def _check_stock(self) -> None:
        of_line = [] if self._line is None else self._line.check(self.server.raw, self.loop.now_s)
        for violation in [*check_stock(self.server.raw), *of_line]:
            if violation not in self.violations:
                self.violated(violation.invariant, violation.detail)

    def _check_redis(self) -> None:
        assert self.redis is not None
        if self.kept and self.decision is None:
            # Reservations that have ended since do not count as lost.
            self.kept &= self.redis.holds()
        for violation in self.redis.check_stock():
            if violation not in self.violations:
                self.violated(violation.invariant, violation.detail)

    def unfinished(self) -> list[tuple[str, str, str]]:
        found = unfinished(self.server.raw)
        return found if self.redis is None else [*found, *self.redis.unfinished(self.server.raw)]

    def closed(self) -> list[tuple[str, str, str]]:
        """Processes that have stopped writing because the ledger went back."""
        databases = {name: process.database for name, process in self.processes.items()}
        return [
            ("process", name, f"closed: {database.guard.finding}")
            for name, database in databases.items()
            if database is not None and database.guard.finding is not None
        ]

    # --- faults

    def inflict(self, faults: list[Fault]) -> None:
        """Starts the faults: calls and time are counted from now."""
        self.has_lost_witnesses = any(fault.kind is Kind.CRASH for fault in faults)
        # Without a pool, its holds or both, Redis cannot tell what the ledger lacks, or that it lacks anything.
        lose_all = (Kind.FLUSHED, Kind.RESTORED)
        self.is_redis_whole = not any(
            fault.kind in lose_all or (fault.kind is Kind.KEY_LOST and fault.by < OF_HOLDS) for fault in faults
        )
        for channel in self.channels.values():
            channel.calls = 0
        for fault in faults:
            if fault.on in self.channels and fault.nth:
                self.channels[fault.on].plan(fault)
            elif fault.kind is Kind.CRASH:
                self._plan_crash(fault)
            else:
                self.loop.call_in_world(fault.at_s, self._begin, fault)
                if fault.kind in (Kind.WENT_BACK, Kind.RESTORED):
                    server = self.server if fault.kind is Kind.WENT_BACK else self.redis
                    assert server is not None
                    self.loop.call_in_world(max(fault.at_s - fault.by, 0.0), server.keep_copy)

    def _plan_crash(self, fault: Fault) -> None:
        process = self.processes[fault.on]

        def on_crash() -> None:
            self.trace.note("FAULT", fault)
            self.loop.call_in_world(fault.for_s, process.start)

        host = process.host
        host.crash_at, host.on_crash = host.steps + fault.nth, on_crash

    def _begin(self, fault: Fault) -> None:
        if self.is_healed:
            return
        self.trace.note("FAULT", fault)
        match fault.kind:
            case Kind.PAUSE:
                self.processes[fault.on].host.paused_until = self.loop.now_s + fault.for_s
            case Kind.WALL_STEP:
                self.processes[fault.on].host.wall_step_ms += round(fault.by * 1000)
            case Kind.CLOCK_STEP:
                server = self.redis if fault.on == "redis" else self.server
                assert server is not None
                server.clock_step_ms += round(fault.by * 1000)
            case Kind.FLUSHED | Kind.RESTORED | Kind.RESTARTED | Kind.LIBRARY_LOST | Kind.KEY_LOST:
                self._suffer(fault)
            case Kind.WENT_BACK:
                self.kept = set() if self.redis is None else self.redis.holds()
                self.server.go_back()
                self.loop.run_on(Host("operator"), self._operate())
            case _:
                self._set(fault, is_on=True)
                self.loop.call_in_world(fault.for_s, self._end, fault)

    def _suffer(self, fault: Fault) -> None:
        redis = self.redis
        assert redis is not None
        undrained = redis.undrained(self.server.raw)
        redis.suffer(fault)
        self.lost |= {id_ for id_, *_ in undrained - redis.undrained(self.server.raw)}

    def _end(self, fault: Fault) -> None:
        self._set(fault, is_on=False)

    def _set(self, fault: Fault, *, is_on: bool) -> None:
        match fault.kind:
            case Kind.READ_ONLY:
                self.server.is_read_only = is_on
            case Kind.DOWN:
                for channel in self._channels_of(fault.on):
                    channel.is_down = is_on
            case _:
                for channel in self._channels_of("redis" if fault.kind is Kind.CUT_OFF_REDIS else "ledger"):
                    (channel.cut_off.add if is_on else channel.cut_off.discard)(fault.on)

    async def _operate(self) -> None:
        """An operator who is called when the first server has noticed, and retries until recovery succeeds."""
        while self.decision is None:
            await asyncio.sleep(OPERATOR_S)
            if self.evidence.losses:
                with suppress(EngineError):
                    database, evidence = self.open_database(), None
                    if self.redis is not None:
                        await database.read(database.now_ms)
                        evidence = (await self._open_engine(self.settings, database)).evidence
                    self.decision = await recover(database, self._open_provider(), self.evidence, evidence)
        self.trace.note("recovered", self.decision.restored, self.decision.given_up, self.decision.charges)

    def _channels_of(self, store: str) -> list[Channel]:
        return [self.channels[name] for name in _STORES.get(store, (store,))]

    def heal(self) -> None:
        """Ends every fault and restarts every process."""
        self.is_healed = True
        self.trace.note("HEALED")
        self.server.heal()
        for channel in self.channels.values():
            channel.heal()
        for process in self.processes.values():
            process.host.paused_until = 0.0
            self.loop.resume(process.host)
            process.host.crash_at = None
            if process.host.is_dead:
                process.start()
