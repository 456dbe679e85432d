"""Exchange rates as an operator writes them."""

from decimal import Decimal, InvalidOperation

# Outside of these it is a mistake: no two currencies are that far apart.
LOWEST, HIGHEST = Decimal("0.0000001"), Decimal(10_000_000)


def checked_rate(text: str) -> Decimal:
    try:
        rate = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:40]!r} is not a number") from None
    if not rate.is_finite() or not LOWEST <= rate <= HIGHEST:
        raise ValueError(f"{text[:40]!r} cannot be a rate")
    return rate


def parse_rates(text: str) -> dict[tuple[str, str], Decimal]:
    """From `EUR/USD=1.0842,EUR/GBP=0.853`. Raises `ValueError` that names what is wrong."""
    table = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        pair, is_given, rate = part.partition("=")
        base, is_pair, currency = pair.strip().partition("/")
        if not (is_given and is_pair and _is_code(base) and _is_code(currency)):
            raise ValueError(f"{part!r} is not like EUR/USD=1.0842")
        table[base, currency] = checked_rate(rate.strip())
    return table


def _is_code(text: str) -> bool:
    return len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()
