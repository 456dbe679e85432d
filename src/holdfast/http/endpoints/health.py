"""Liveness, readiness, and the state of each dependency. Answered from memory: see `readiness.py`."""

from holdfast import __version__
from holdfast.bootstrap.services import Services
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.message import PRIVATE_JSON, Answer, Request, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import (
    CheckOut,
    DependencyOut,
    HealthOut,
    LoadOut,
    ReadyOut,
    SystemHealthOut,
)
from holdfast.http.protection.shedding import Shedder
from holdfast.runtime.readiness import SELLING, Check
from holdfast.settlement.parked import count_parked

# Of pools that are locked. The others are in `/v1/ops/pools`.
LOCKED_SHOWN = 20

_LIVE = encode(HealthOut("live"))


class HealthEndpoints:
    def __init__(self, services: Services, shedder: Shedder) -> None:
        self._services, self._shedder = services, shedder

    async def live(self, _request: Request) -> Answer:
        return Answer(200, [*PRIVATE_JSON], _LIVE)

    async def ready(self, _request: Request) -> Answer:
        """503 only if this process should get no requests. Other failures affect every other server, too, or do not
        stop sales."""
        services, checks = self._services, self._services.checks
        shown = {name: CheckOut.of(check) for name, check in checks.items()} | {"pools": self._check_pools()}
        if services.agents.ended:
            stopped = ", ".join(services.agents.ended)
            detail = f"Background tasks have stopped: {stopped}. Restart this server; its log says why."
            raise Problem(problems.NOT_READY, detail, checks=shown)
        if (finding := services.database.guard.finding) is not None:
            # Not only from the last heartbeat: it may have been detected since.
            raise Problem(problems.NOT_READY, f"The ledger went back: {finding}.", checks=shown)
        if not checks[SELLING].ok:
            raise Problem(problems.NOT_READY, f"Nothing can be sold: {checks[SELLING].reason}.", checks=shown)
        status = "ready" if all(check.ok for check in shown.values()) else "degraded"
        ready = ReadyOut(status, shown, self._shedder.degraded_features, services.open_breakers)
        return json(ready)

    def _check_pools(self) -> CheckOut:
        """Other pools still sell, so a locked pool does not make this server unready."""
        locked = self._services.engine.locked_pools.names()
        return CheckOut(not locked, 0, "pool_locked" if locked else None, locked[:LOCKED_SHOWN])

    async def dependencies(self, _request: Request) -> Answer:
        services = self._services
        lags = self._replicas()
        found = [_shown(name, check, lags.get(name)) for name, check in services.checks.items()]
        found += self._own_agents({one.name for one in found})
        is_ok = all(dependency.ok for dependency in found)
        load = load_of(services, self._shedder)
        return json(SystemHealthOut(is_ok, __version__, found, load, await self._parked()))

    async def _parked(self) -> dict[str, int]:
        try:
            return await self._services.reads.read(count_parked)
        except EngineError:
            return {}

    def _replicas(self) -> dict[str, str]:
        """How far each is behind, by the name of its check."""
        return {
            f"replica {one.name}": f"{one.lag_ms} ms behind"
            for one in self._services.reads.standings
            if one.lag_ms is not None
        }

    def _own_agents(self, shown: set[str]) -> list[DependencyOut]:
        """Tasks that run in every server process."""
        return [
            DependencyOut(name, "agent", trouble is None, trouble or "runs")
            for name, trouble in self._services.agents.troubles.items()
            if name not in shown
        ]


# The kind of a check, and its message while it passes. All other checks are agents.
_SHOWN = {
    "selling": ("capability", "works"),
    "settling": ("capability", "works"),
    "joining": ("capability", "works"),
    "sqlite": ("store", "takes writes"),
    "postgresql": ("store", "takes writes"),
    "ledger": ("store", "has all that was seen of it"),
    "store_growth": ("store", "bounded"),
    "clock": ("store", "steady"),
    "redis": ("gate", "takes writes"),
    "redis_primaries": ("gate", "all take writes"),
    "payment_sandbox": ("payment", "answers"),
    "payment_stripe": ("payment", "answers"),
}


def _shown(name: str, check: Check, lag: str | None) -> DependencyOut:
    kind, fine = _SHOWN.get(name, ("store", "is read") if name.startswith("replica ") else ("agent", "runs"))
    detail = ": ".join(said for said in (check.reason or fine, lag) if said)
    return DependencyOut(name, kind, check.ok, detail, check.age_ms)


def load_of(services: Services, shedder: Shedder) -> LoadOut:
    """How this process is doing."""
    limiter = shedder.limiter
    failed = {name: check.reason or "" for name, check in services.checks.items() if not check.ok}
    return LoadOut(
        services.open_breakers,
        shedder.degraded_features,
        services.agents.ended,
        failed,
        limiter.in_flight,
        round(limiter.limit),
    )
