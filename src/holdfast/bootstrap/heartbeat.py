"""Proves once a second that the stores take writes and that every role of background work is alive.

The model. Each process writes a row of its own in the ledger, through the queue, the connections and the commit of real
work, and calls a function that writes on every Redis primary. With its row it says which roles of background work it
has and whether they work, and it reads the rows of the others, so that a process without background work knows whether
any process does it. It also reports payment providers that do not answer, because only settling processes call them. A
role is alive while the row of some process that has it keeps changing; clocks are not compared.

When it fails. After a real write failed, the row is padded to the size of a large batch until that succeeds: a disk
that is nearly full still takes a small row. A store that gives a heartbeat no answer in time, but changed rows
meanwhile, is slow and not dead: the heartbeat waits behind real work.
"""

import asyncio
import os
import secrets
from collections.abc import Sequence
from functools import partial
from time import monotonic

import structlog
from sqlalchemy import Connection

from holdfast.bootstrap.outage_log import OutageLog
from holdfast.errors import EngineError, LedgerWentBack
from holdfast.gate.engine import Beat
from holdfast.ledger.engine.database import Database, Monitored
from holdfast.ledger.engine.heartbeats import Heartbeat, beat
from holdfast.ledger.events.outages import Outage, write_outages
from holdfast.ledger.revision import newest_revision
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent, Agents
from holdfast.runtime.breaker import Breaker
from holdfast.runtime.readiness import SELLING, Readiness

log = structlog.get_logger()

INTERVAL_S = 1.0
# A hanging store is cut off early enough for the next beat to come in time.
TIMEOUT_S = 1.5
# Written once a second and read once a second, a row is up to two seconds old.
ROLE_FRESH_S = 2.8
PADDING_BYTES = 256 * 1024

# The background work of a worker; in Redis mode also the drainer, with Kafka also its relay.
ROLES = (
    "archivist", "charge_lists", "deliverer", "expirer", "line_advancer", "linker", "payment_audit", "pool_updates",
    "pruner", "reconciler", "refunder", "relay", "sale_lifecycle", "settler",
)  # fmt: skip
DRAINER = "drainer"
KAFKA_RELAY = "kafka_relay"
KAFKA_SETTLER = "kafka_settler"
# The ledger lacks what it had; nothing is sold, in Redis mode either, until a person has decided.
WENT_BACK = "ledger_went_back"
NO_ANSWER = "no_answer"


def roles_of(*, has_redis: bool, has_kafka: bool = False, has_intents: bool = False) -> list[str]:
    return [*ROLES, *[DRAINER] * has_redis, *[KAFKA_RELAY] * has_kafka, *[KAFKA_SETTLER] * has_intents]


def build_readiness(store: str, *, has_redis: bool, **has: bool) -> Readiness:
    of_redis = ["redis", DRAINER] if has_redis else []
    readiness = Readiness(
        {
            SELLING: ["redis" if has_redis else store, "ledger"],
            "settling": [store, "settler", *of_redis],
            "joining": [store, "line_advancer"],
        }
    )
    for name in [store, *of_redis[:1]]:
        readiness.watch(name)
    readiness.report("ledger", None)
    for role in roles_of(has_redis=has_redis, **has):
        readiness.watch(role, fresh_s=ROLE_FRESH_S, silence="no_worker")
    return readiness


class LedgerHeartbeat:
    def __init__(
        self,
        database: Database,
        agents: Agents,
        readiness: Readiness,
        providers: Sequence[Breaker] = (),
        *,
        has_redis: bool,
        **has: bool,
    ) -> None:
        self._database, self._agents, self._readiness = database, agents, readiness
        self._providers = providers
        self._process = secrets.token_hex(8)
        self._revision = newest_revision()
        self._store = database.dialect_name
        self._roles = roles_of(has_redis=has_redis, **has)
        self._failed_writes = 0
        self._is_doubted = False
        # Of every other process: when its row was written, and when that was by our clock.
        self._seen: dict[str, tuple[int, float]] = {}
        self._outages = OutageLog({self._store, "redis"}, self._roles)
        # The engine's time at the last heartbeat, and when that was by our clock.
        self._known: tuple[int, float] | None = None

    def agent(self) -> Agent[float]:
        return Agent("heartbeat", self.pass_once, INTERVAL_S, rest_s=_rest_s, jitter=0.0)

    async def pass_once(self) -> float:
        """Returns how long it took."""
        began = monotonic()
        if isinstance(self._database, Monitored):
            self._database.keep_probe_open()
            self._readiness.report("store_growth", self._database.trouble())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                due = self._outages.take_due()
                work = partial(self._beat, due=due)
                now, others = await self._database.write(work, timeout_s=TIMEOUT_S, brief=True)
        except (EngineError, TimeoutError) as exc:
            if isinstance(exc, TimeoutError) and self._took_write_since(began):
                self._note_slowness()
            else:
                self._note_failure(reason_of(exc), str(exc))
        else:
            self._is_doubted = False
            self._known = now, monotonic()
            self._outages.wrote(due)
            self._readiness.succeeded(self._store)
            self._note_roles(now, others)
        self._readiness.report("ledger", None if self._database.guard.finding is None else WENT_BACK)
        for name, check in self._readiness.checks().items():
            metrics.CHECK_PASSES.labels(name).set(check.ok)
        if self._known is not None:
            at, known_at = self._known
            passed_ms = round((monotonic() - known_at) * 1000)
            self._outages.watch(self._readiness.troubles(), metrics.shed_total(), at + passed_ms)
        return monotonic() - began

    def _took_write_since(self, began: float) -> bool:
        return isinstance(self._database, Monitored) and self._database.wrote_at >= began

    def _beat(self, connection: Connection, due: Sequence[Outage]) -> tuple[int, list[Heartbeat]]:
        if due:
            write_outages(connection, self._process, due)
        if isinstance(self._database, Monitored) and self._failed_writes != self._database.failed_writes:
            self._failed_writes, self._is_doubted = self._database.failed_writes, True
        # Random, because an engine may compress it.
        padding = os.urandom(PADDING_BYTES) if self._is_doubted else None
        # Not the store's own clock, which may have been set: who starts next relies on it (`runtime/engine_clock.py`).
        now = self._database.now_ms(connection)
        own = self._own_roles()
        written = own | self._own_providers() if own else own
        return now, beat(connection, self._process, self._revision, written, now, padding)

    def _own_roles(self) -> dict[str, str | None]:
        return {role: trouble for role, trouble in self._agents.troubles.items() if role in self._roles}

    def _own_providers(self) -> dict[str, str | None]:
        return {provider.name: None if provider.is_closed else NO_ANSWER for provider in self._providers}

    def _note_slowness(self) -> None:
        """What is not known now is as old as the last heartbeat."""
        self._readiness.succeeded(self._store)
        for role, trouble in self._own_roles().items():
            self._note_role(role, [(trouble, 0.0)])

    def _note_failure(self, reason: str, error: str) -> None:
        if not self._is_doubted:
            log.error("store_not_writable", store=self._store, reason=reason, error=error)
        self._is_doubted = True
        self._readiness.failed(self._store, reason)
        own = self._own_roles()
        for role in self._roles:
            self._note_role(role, [(own[role], 0.0)] if role in own else [(reason, 0.0)])

    def _note_roles(self, now: int, others: list[Heartbeat]) -> None:
        at = monotonic()
        self._seen = {other.process: self._seen_at(other, now, at) for other in others}
        own = self._own_roles()
        for role in self._roles:
            states = [(own[role], 0.0)] if role in own else []
            for other in others:
                age_s = at - self._seen[other.process][1]
                if role in other.roles and age_s <= ROLE_FRESH_S:
                    states.append((other.roles[role], age_s))
            self._note_role(role, states)
        fresh = [other.roles for other in others if at - self._seen[other.process][1] <= ROLE_FRESH_S]
        for name, trouble in self._own_providers().items():
            # One process that gets no answer is enough: another may have had nothing to ask.
            troubles = [trouble, *[roles.get(name) for roles in fresh]]
            self._readiness.report(name, next((each for each in troubles if each), None))

    def _seen_at(self, other: Heartbeat, now: int, at: float) -> tuple[int, float]:
        written, seen_at = self._seen.get(other.process, (None, 0.0))
        if written == other.at:
            return other.at, seen_at
        age_s = max(now - other.at, 0) / 1000
        # A row that changed was written since the last look, whatever the engine's clock has done meanwhile.
        return other.at, at - (age_s if written is None else min(age_s, INTERVAL_S))

    def _note_role(self, role: str, states: Sequence[tuple[str | None, float]]) -> None:
        """One process that does the work is enough."""
        working = [age_s for trouble, age_s in states if trouble is None]
        if working:
            self._readiness.succeeded(role, age_s=min(working))
        else:
            self._readiness.failed(role, next((trouble for trouble, _ in states if trouble), "no_worker"))


class GateHeartbeat:
    """Of a gate outside the ledger. It sells while one primary takes writes; the pools of the others do not."""

    def __init__(self, call: Beat, readiness: Readiness) -> None:
        self._call, self._readiness = call, readiness

    def agent(self) -> Agent[float]:
        return Agent("gate_heartbeat", self.pass_once, INTERVAL_S, rest_s=_rest_s, jitter=0.0)

    async def pass_once(self) -> float:
        began = monotonic()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                results = await self._call()
        except (EngineError, TimeoutError) as exc:
            results = [exc]
        failures = [reason_of(result) for result in results if result is not None]
        if len(failures) < len(results):
            self._readiness.succeeded("redis")
        else:
            self._readiness.failed("redis", failures[0])
        if len(results) > 1:
            self._readiness.report("redis_primaries", failures[0] if failures else None)
        return monotonic() - began


def reason_of(failure: BaseException) -> str:
    """The cause that an engine error, or what led to it, names."""
    error: BaseException | None = failure
    if isinstance(error, LedgerWentBack):
        return WENT_BACK
    while isinstance(error, EngineError):
        if error.cause is not None:
            return error.cause.value
        error = error.__cause__
    return NO_ANSWER if isinstance(failure, TimeoutError) else "write_failed"


def _rest_s(took_s: float) -> float:
    return max(INTERVAL_S - took_s, 0.0)
