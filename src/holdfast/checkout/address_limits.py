"""The limit of units per address, for sales that have one."""

from collections.abc import Awaitable
from contextlib import suppress

from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import EngineError, OutcomeUnknown
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

    async def decided(self, command: Reserve, deciding: Awaitable[Verdict]) -> Verdict:
        """The verdict, once the address has as many units as were granted. While that is unknown they count."""
        try:
            verdict = await deciding
        except OutcomeUnknown:
            raise
        except EngineError:
            # With a quote, an earlier request may have been granted this same reservation.
            if command.quote_id is None:
                with suppress(EngineError):
                    await self._set(command, 0)
            raise
        if verdict.outcome is Outcome.KEY_REUSED and command.quote_id is not None:
            return verdict
        found = verdict.reservation
        # With a quote, the first of two requests may have been granted this same reservation.
        is_it = found is not None and found.reservation_id == command.reservation_id
        granted = found if verdict.outcome is Outcome.RESERVED or is_it else None
        if granted is None or granted.quantity != command.quantity:
            # Rather counted too high than a grant that is not answered.
            with suppress(EngineError):
                await self._set(command, 0 if granted is None else granted.quantity)
        return verdict

    async def _set(self, command: Reserve, units: int) -> None:
        await self._database.write(lambda c: set_units(c, command.reservation_id, units))
