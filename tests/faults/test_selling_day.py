"""Short runs of `selling_day.py`; the long ones are started by hand."""

import asyncio
from pathlib import Path

import pytest
from selling_day import selling_day

pytestmark = pytest.mark.usefixtures("postgres_url")

PURCHASES, DEATHS = 150, 4
WITHIN_S = 480


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
async def test_every_unit_ends_sold_or_free_and_every_charge_as_an_order_or_nothing(
    engine: str, seed: int, tmp_path: Path
) -> None:
    print(f"for longer: python tests/faults/selling_day.py --engine {engine} --seed {seed} --purchases 10000")
    async with asyncio.timeout(WITHIN_S):
        assert await selling_day(engine, PURCHASES, seed, tmp_path, deaths=DEATHS) == []
