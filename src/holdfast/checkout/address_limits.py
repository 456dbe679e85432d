"""The limit of units per address, for sales that have one."""

from collections.abc import Awaitable, Callable

from holdfast.checkout.claims import decided
from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.address_units import set_units, take_units


class AddressLimits:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, sale: Sale, address: str, command: Reserve) -> bool:
        """Whether the address may have these units; then they count as its own."""
        limit = sale.units_per_address
        assert limit is not None
        return await self._database.write(
            lambda c: take_units(c, sale.sale_id, address, command, limit=limit, now=self._database.now_ms(c))
        )

    async def decided(self, command: Reserve, decide: Callable[[], Awaitable[Verdict]]) -> Verdict:
        """The verdict, once exactly the granted units count for the address."""
        return await decided(command, decide, self._set)

    async def _set(self, reservation_id: str, units: int) -> None:
        await self._database.write(lambda c: set_units(c, reservation_id, units))
