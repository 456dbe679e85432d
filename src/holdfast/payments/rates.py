"""Exchange rates behind one port, for quotes in currencies other than the sale's.

There are two providers: a fixed table from the settings, and an HTTP service (`http_rates.py`).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Protocol

from holdfast.domain.sale.rates import parse_rates


class RateProvider(Protocol):
    async def rate(self, base: str, currency: str) -> Decimal | None:
        """The price of one `base` in `currency`; None if the pair is not traded. Raises `Unavailable` if currently
        unknown."""
        ...

    async def close(self) -> None: ...


class FixedRates:
    """A table that an operator maintains: `EUR/USD=1.0842,EUR/GBP=0.853`."""

    def __init__(self, table: Mapping[tuple[str, str], Decimal]) -> None:
        self._table = table

    async def rate(self, base: str, currency: str) -> Decimal | None:
        return self._table.get((base, currency))

    async def close(self) -> None:
        """Does nothing."""


def rates_from(table: str, url: str) -> RateProvider:
    """The service if one is configured, else the table, which may be empty."""
    if not url:
        return FixedRates(parse_rates(table))
    # Its library is slow to import, and few installations need it.
    from holdfast.payments.http_rates import HttpRates  # noqa: PLC0415 - see above

    return HttpRates(url)
