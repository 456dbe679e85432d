"""What a buyer's payment needs next: nothing, some time, or an answer to the bank (3-D Secure).

The secret that the browser needs for the bank is fetched from the provider for each request and never stored: it can
confirm a payment.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from msgspec import Struct
from sqlalchemy import Connection, select

from holdfast.domain.sale.settling_case import AUTHENTICATION_REQUIRED, PaymentStatus
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.ledger.engine.database import Database
from holdfast.ledger.tables.money import payments
from holdfast.payments.port import NextAction, PaymentProvider


class PaymentPhase(StrEnum):
    # No payment is in progress.
    NONE = "none"
    PROCESSING = "processing"
    ACTION_REQUIRED = "action_required"


class PaymentStep(Struct, frozen=True):
    phase: PaymentPhase
    action: NextAction | None = None


class _Asked(Struct, frozen=True):
    """A payment that waits for the buyer's answer to the bank."""

    payment_key: str
    provider: str
    reference: str


_NONE, _PROCESSING = PaymentStep(PaymentPhase.NONE), PaymentStep(PaymentPhase.PROCESSING)


class PaymentSteps:
    def __init__(
        self,
        database: Database,
        providers: Mapping[str, PaymentProvider],
        hint: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`hint` has a payment looked up now."""
        self._database = database
        self._providers = providers
        self._hint = hint

    async def next(self, reservation: Reservation) -> PaymentStep:
        if reservation.status is not Status.SETTLING:
            return _NONE
        asked = await self._database.read(lambda c: _awaiting_buyer(c, reservation.reservation_id))
        provider = None if asked is None else self._providers.get(asked.provider)
        if asked is None or provider is None:
            return _PROCESSING
        action = await provider.next_action(asked.payment_key, asked.reference)
        return _PROCESSING if action is None else PaymentStep(PaymentPhase.ACTION_REQUIRED, action)

    async def returned(self, reservation: Reservation) -> None:
        """The buyer is back from the bank. What the bank said is looked up, never taken from the browser."""
        if reservation.status is not Status.SETTLING:
            return
        asked = await self._database.read(lambda c: _awaiting_buyer(c, reservation.reservation_id))
        if asked is not None:
            await self._hint(asked.payment_key)


def _awaiting_buyer(connection: Connection, reservation_id: str) -> _Asked | None:
    is_asked = [payments.c.state == PaymentStatus.ATTEMPTED.value, payments.c.reason == AUTHENTICATION_REQUIRED]
    wanted = select(payments.c.payment_key, payments.c.provider, payments.c.reference)
    query = wanted.where(payments.c.reservation_id == reservation_id, payments.c.reference.is_not(None), *is_asked)
    row = connection.execute(query).first()
    return None if row is None else _Asked(row.payment_key, row.provider, row.reference)
