"""A short run of `chaos.py`; longer ones are started by hand."""

import asyncio
from pathlib import Path

import pytest
from chaos import chaos

pytestmark = pytest.mark.usefixtures("postgres_url")

SECONDS, WITHIN_S = 12, 300


async def test_servers_workers_valkey_and_postgresql_die_in_random_order_and_the_books_are_right(
    seed: int, tmp_path: Path
) -> None:
    print(f"for longer: python tests/faults/chaos.py --seed {seed} --seconds 120")
    async with asyncio.timeout(WITHIN_S):
        assert await chaos(seed, SECONDS, tmp_path, lossy=False) == []
