"""Which sales are purged from the caches when a watcher starts."""

from holdfast.caches.purging import Purged, Purger
from holdfast.caches.sale_watcher import CACHED_MS, SaleWatcher
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.stock.shared_reads import look_into
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
