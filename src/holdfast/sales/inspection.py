"""Checks that the pool of a sale matches the sale, in the gate and in the ledger."""

from collections.abc import Awaitable, Callable

from msgspec.structs import asdict

from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.pool import Pool
from holdfast.gate.audit import PoolReport
from holdfast.gate.reconciler import Reconciler
from holdfast.ledger.stock.audit import counts_of

CatchUp = Callable[[str | None], Awaitable[None]]

# The ledger may be an entry behind when it is read, although it was just brought up to date.
LOOKS = 3


class Inspector:
    def __init__(self, reconciler: Reconciler, catch_up: CatchUp) -> None:
        self._reconciler = reconciler
        self._catch_up = catch_up

    async def problem_of(self, sale: Sale) -> str | None:
        """Why the sale cannot open, as a message for its operator. None if it can."""
        for pool in await self._reconciler.pools_of(sale.sku_id):
            problem = await self._problem_of_pool(sale, pool)
            if problem is not None:
                return problem
        return None

    async def _problem_of_pool(self, sale: Sale, pool: str) -> str | None:
        for look in range(LOOKS):
            await self._catch_up(pool)
            report = await self._reconciler.examine(pool)
            if report is None:
                return "there is no pool"
            if look == LOOKS - 1 or not _is_moving(report):
                return _difference(sale, report)
        return None


def _is_moving(report: PoolReport) -> bool:
    gate = report.gate
    return report.finding is None and gate is not None and (report.journal_lag > 0 or not gate.is_open)


def _difference(sale: Sale, report: PoolReport) -> str | None:
    if report.finding is not None:
        return f"gate and ledger are inconsistent: {report.finding}"
    ledger = report.ledger.pool
    if report.gate is not None:
        if not report.gate.is_open:
            return "the gate is not ready"
        if report.journal_lag:
            return f"the ledger is {report.journal_lag} entries behind the gate"
        difference = _differs(report.gate.pool, ledger)
        if difference is not None:
            return f"gate and ledger differ: {difference}"
    if ledger.rules != sale.rules:
        return f"pool and sale rules differ: {_first_other(asdict(ledger.rules), asdict(sale.rules))}"
    return None


def _differs(gate: Pool, ledger: Pool) -> str | None:
    if gate.total != ledger.total:
        return f"total is {gate.total} in the gate and {ledger.total} in the ledger"
    if counts_of(gate) != counts_of(ledger):
        return _first_other(asdict(counts_of(gate)), asdict(counts_of(ledger)))
    if gate.rules != ledger.rules:
        return _first_other(asdict(gate.rules), asdict(ledger.rules))
    return None


def _first_other(one: dict[str, object], other: dict[str, object]) -> str:
    return next(f"{name} is {value} and {other[name]}" for name, value in one.items() if value != other[name])
