"""Rates: a fixed table, and a service over HTTP that is not trusted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest
from aiohttp import web

from holdfast.domain.sale.quote import converted
from holdfast.domain.sale.rates import parse_rates
from holdfast.errors import Unavailable
from holdfast.payments.http_rates import HttpRates
from holdfast.payments.rates import rates_from
from hostile_server import ATTACKS, attacking


@asynccontextmanager
async def service(answer: web.Response | None = None) -> AsyncIterator[tuple[str, list[str]]]:
    """The URL of a rate service, and what it was asked."""
    asked: list[str] = []

    async def rate(request: web.Request) -> web.Response:
        asked.append(request.query_string)
        return answer or web.json_response({"rate": "1.0842"})

    app = web.Application()
    app.router.add_get("/rates", rate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}/rates", asked
    finally:
        await runner.cleanup()


async def test_a_table_has_the_pairs_it_lists_and_no_others() -> None:
    rates = rates_from("EUR/USD=1.0842, EUR/GBP=0.853", "")
    assert await rates.rate("EUR", "USD") == Decimal("1.0842")
    assert await rates.rate("USD", "EUR") is None


@pytest.mark.parametrize("text", ["EUR-USD=1", "EUR/USD", "eur/usd=1", "EUR/USD=-1", "EUR/USD=nan", "EUR/USD=x"])
def test_a_table_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"EUR|rate|number"):
        parse_rates(text)


async def test_a_crowd_asks_the_service_once() -> None:
    async with service() as (url, asked):
        rates = HttpRates(url)
        found = await asyncio.gather(*[rates.rate("EUR", "USD") for _ in range(50)])
        await rates.close()
    assert (set(found), asked) == ({Decimal("1.0842")}, ["base=EUR&currency=USD"])


async def test_a_pair_that_is_not_traded_has_no_rate() -> None:
    async with service(web.Response(status=404)) as (url, _):
        rates = HttpRates(url)
        assert await rates.rate("EUR", "XXX") is None
        await rates.close()


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=500),
        web.Response(status=302, headers={"location": "/rates"}),
        web.Response(text="no"),
        web.json_response({"rate": 0}),
        web.json_response({"rate": "1e99"}),
    ],
    ids=["500", "redirect", "not JSON", "zero", "absurd"],
)
async def test_an_answer_that_cannot_be_trusted_is_no_rate(answer: web.Response) -> None:
    async with service(answer) as (url, _):
        rates = HttpRates(url)
        with pytest.raises(Unavailable):
            await rates.rate("EUR", "USD")
        await rates.close()


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_hostile_service_costs_no_more_than_the_timeout(name: str) -> None:
    async with attacking(ATTACKS[name]) as url:
        rates = HttpRates(url, timeout_s=0.3)
        with pytest.raises(Unavailable):
            await rates.rate("EUR", "USD")
        await rates.close()


@pytest.mark.parametrize(
    ("amount", "base", "currency", "rate", "expected"),
    [
        (4_999, "EUR", "USD", "1.0842", 5_420),
        (4_999, "EUR", "JPY", "162.5", 8_123),
        (8_123, "JPY", "EUR", "0.00615", 4_996),
        # As far as cards can be charged.
        (1_000, "EUR", "KWD", "0.3345", 3_350),
        (1_000, "EUR", "ISK", "142.44", 142_400),
        (1, "EUR", "USD", "0.5", 1),
        (0, "EUR", "USD", "1.1", 0),
    ],
)
def test_amounts_are_rounded_half_up_to_what_can_be_charged(
    amount: int, base: str, currency: str, rate: str, expected: int
) -> None:
    assert converted(amount, base, currency, Decimal(rate)) == expected
