"""Exchange rates behind one port, for quotes in other currencies than a sale's.

Two providers come with it: a fixed table from the settings, and a service that is asked over HTTP (`http_rates.py`).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Protocol

from holdfast.domain.sale.rates import parse_rates


class RateProvider(Protocol):
    async def rate(self, base: str, currency: str) -> Decimal | None:
        """What one `base` is in `currency`; None if it is not traded. Raises `Unavailable` if that is not known now."""
        ...

    async def close(self) -> None: ...


class FixedRates:
    """A table that an operator keeps: `EUR/USD=1.0842,EUR/GBP=0.853`."""

    def __init__(self, table: Mapping[tuple[str, str], Decimal]) -> None:
        self._table = table

    async def rate(self, base: str, currency: str) -> Decimal | None:
        return self._table.get((base, currency))

    async def close(self) -> None:
        """Nothing is open."""


def rates_from(table: str, url: str) -> RateProvider:
    """The service if there is one, else the table, which may be empty."""
    if not url:
        return FixedRates(parse_rates(table))
    # Its library is slow to import, and few installations need it.
    from holdfast.payments.http_rates import HttpRates  # noqa: PLC0415 - see above

    return HttpRates(url)
