"""Which sales are purged from the caches when a watcher starts, and which are warmed."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from holdfast.caches import sale_watcher
from holdfast.caches.purging import Purged, Purger
from holdfast.caches.sale_watcher import CACHED_MS, WARM_BEFORE_MS, SaleWatcher
from holdfast.caches.warming import Warmed
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.errors import Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.stock.shared_reads import Views, look_into
from set_clock import SetClock


class Purges(Purger):
    def __init__(self) -> None:
        super().__init__(url="http://cdn.example")
        self.of: list[str] = []

    async def purge(self, sale_id: str) -> Purged:
        self.of.append(sale_id)
        return Purged(sale_id, 0, 200)


def sale(sale_id: str, state: SaleState, updated_at: int) -> Sale:
    return Sale(
        sale_id=sale_id,
        sku_id=sale_id,
        name="Drop",
        price_amount=100,
        currency="EUR",
        starts_at=0,
        checkout=Checkout.CART,
        payment=PaymentKind.EXTERNAL,
        state=state,
        created_at=0,
        updated_at=updated_at,
    )


async def test_a_watcher_that_starts_does_not_purge_sales_that_were_over_long_ago(database: Database) -> None:
    clock, purges = SetClock(database), Purges()
    before = clock.now - CACHED_MS
    known = [
        sale("open", SaleState.READY, before),
        sale("closed-now", SaleState.CLOSED, clock.now),
        *[sale(f"closed-{n}", SaleState.CLOSED, before) for n in range(3)],
    ]
    for one in known:
        await clock.write(lambda c, one=one: insert_sale(c, one))  # type: ignore[misc]
    watcher = SaleWatcher(clock, look_into(database), purges)
    await watcher.pass_once()
    assert sorted(purges.of) == ["closed-now", "open"]


async def test_a_change_is_purged_although_the_pools_could_not_be_read_when_it_was_seen(database: Database) -> None:
    clock, purges, failures = SetClock(database), Purges(), [Unavailable("Redis is away")]
    look = look_into(database)

    async def look_at(sku_ids: Iterable[str]) -> Views:
        if failures:
            raise failures.pop()
        return await look(sku_ids)

    await clock.write(lambda c: insert_sale(c, sale("changed", SaleState.READY, clock.now)))
    watcher = SaleWatcher(clock, look_at, purges)
    with pytest.raises(Unavailable):
        await watcher.pass_once()
    await watcher.pass_once()
    assert purges.of == ["changed"]


async def test_a_sale_is_warmed_until_all_of_it_was_fetched(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sale_watcher, "WARM_AGAIN_S", 0.0)
    clock, statuses, warmed = SetClock(database), [0, 502, 200], list[str]()

    async def warm(_url: str, sale_id: str) -> list[Warmed]:
        warmed.append(sale_id)
        return [Warmed("/s/soon", 200, "MISS", "HIT"), Warmed("/assets/a", statuses[len(warmed) - 1], "", "")]

    soon = replace(sale("soon", SaleState.READY, clock.now), starts_at=clock.now + WARM_BEFORE_MS)
    later = replace(sale("later", SaleState.READY, clock.now), starts_at=clock.now + WARM_BEFORE_MS + 1)
    for one in (soon, later):
        await clock.write(lambda c, one=one: insert_sale(c, one))  # type: ignore[misc]
    watcher = SaleWatcher(clock, look_into(database), Purges(), "http://edge.example", warm)
    for _ in range(5):
        await watcher.pass_once()
    assert warmed == ["soon"] * 3
