"""The limit of purchases that a buyer may attempt, for sales that have one."""

from holdfast.domain.sale.sale import Sale
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.purchase_attempts import take_attempt


class AttemptLimits:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, sale: Sale, buyer_id: str, key: str) -> bool:
        """Whether the buyer may try with this key; then it counts, on disk, before anything is decided."""
        limit = sale.purchase_attempts_max
        if limit is None:
            return True
        return await self._database.write(
            lambda c: take_attempt(c, sale.sale_id, buyer_id, key, limit=limit, now=self._database.now_ms(c))
        )
