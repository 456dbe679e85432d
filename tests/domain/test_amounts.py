"""Amounts are kept in the smallest unit of their currency, and shown as people write them."""

import pytest

from holdfast.domain.sale.sale import MAX_AMOUNT, in_words


@pytest.mark.parametrize(
    ("amount", "currency", "words"),
    [
        (4_999, "EUR", "49.99 EUR"),
        (5, "USD", "0.05 USD"),
        (0, "EUR", "0.00 EUR"),
        (4_999, "JPY", "4,999 JPY"),
        (4_999, "KWD", "4.999 KWD"),
        (MAX_AMOUNT - 1, "EUR", "9,999,999,999.99 EUR"),
    ],
)
def test_an_amount_is_written_as_in_its_currency(amount: int, currency: str, words: str) -> None:
    assert in_words(amount, currency) == words
