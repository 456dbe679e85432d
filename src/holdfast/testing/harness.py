"""An engine under test: its gate, its clock, and what its ledger holds."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.domain.stock.command import Command, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation
from holdfast.domain.stock.state import State
from holdfast.gate.port import Gate
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import SKU


class Clock(Protocol):
    now: int

    def advance(self, ms: int) -> None: ...


class GateHarness:
    """What the conformance suite needs from an engine. Every batch applied here must leave a consistent ledger."""

    def __init__(
        self,
        open_gate: Callable[[], Gate],
        clock: Clock,
        read: Callable[[str], Awaitable[LedgerSnapshot]],
        put: Callable[[State], Awaitable[None]],
    ) -> None:
        self.gate = open_gate()
        self.clock = clock
        self.put_state = put
        self._open_gate = open_gate
        self._read = read

    def another(self) -> "GateHarness":
        """The same engine through a newly opened gate, as in another process."""
        return GateHarness(self._open_gate, self.clock, self._read, self.put_state)

    async def snapshot(self, sku_id: str = SKU) -> LedgerSnapshot:
        return await self._read(sku_id)

    async def apply(self, *commands: Command, sku_id: str = SKU) -> list[Verdict]:
        verdicts = await self.gate.apply(sku_id, commands)
        (await self.snapshot(sku_id)).check()
        return verdicts

    async def outcomes(self, *commands: Command, sku_id: str = SKU) -> list[Outcome]:
        return [verdict.outcome for verdict in await self.apply(*commands, sku_id=sku_id)]

    async def granted(self, command: Command, sku_id: str = SKU) -> Reservation:
        [verdict] = await self.apply(command, sku_id=sku_id)
        assert verdict.reservation is not None, verdict
        return verdict.reservation

    async def reservation(self, reservation_id: str) -> Reservation:
        return (await self.snapshot()).reservations[reservation_id]

    async def history(self, reservation_id: str) -> list[str]:
        return [e.type for e in (await self.snapshot()).events if e.reservation_id == reservation_id]
