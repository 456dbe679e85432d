"""Stores the payment method that a buyer chose, for settlement to use."""

from sqlalchemy import Connection

from holdfast.domain.sale.sale import PAID_BY_PROVIDER, Sale
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.payment_notes import Decline, Method, forget_method, last_decline, note_method


class PaymentMethods:
    def __init__(self, database: Database) -> None:
        self._database = database

    def are_used_by(self, sale: Sale) -> bool:
        return sale.payment in PAID_BY_PROVIDER

    async def note(
        self, sale: Sale, reservation_id: str, owner_id: str, quantity: int, method: Method, attempt: int = 1
    ) -> None:
        def work(connection: Connection) -> None:
            now = self._database.now_ms(connection)
            note_method(connection, sale, reservation_id, owner_id, quantity, method, now, attempt)

        await self._database.write(work)

    async def forget(self, reservation_id: str) -> None:
        await self._database.write(lambda connection: forget_method(connection, reservation_id))

    async def last_decline(self, reservation_id: str) -> Decline | None:
        return await self._database.read(lambda connection: last_decline(connection, reservation_id))
