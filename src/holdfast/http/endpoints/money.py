"""Wallets, payments that need their buyer, and notices from payment providers."""

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, caller_of, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.money import BalanceOut, CreditIn, PaymentStepOut, WalletOut
from holdfast.http.endpoints.reservations import ReservationEndpoints
from holdfast.ledger.money.wallet import KeyReused
from holdfast.payments.notice import Notice, NoticeRefused
from holdfast.payments.sandbox.webhook import read_webhook as read_sandbox_webhook


class WalletEndpoints:
    def __init__(self, services: Services) -> None:
        self._wallet = services.payments.wallet

    async def credit(self, _request: Request, buyer_id: str, given: CreditIn) -> Answer:
        try:
            balance = await self._wallet.credit(buyer_id, given.amount, given.currency, given.idempotency_key)
        except KeyReused:
            raise Problem(problems.IDEMPOTENCY_KEY_REUSED) from None
        return json(BalanceOut.of(balance))

    async def get(self, request: Request, buyer_id: str) -> Answer:
        if caller_of(request).buyer_id not in (None, buyer_id):
            raise Problem(problems.FORBIDDEN, "This is another buyer's wallet.")
        return json(WalletOut.of(buyer_id, await self._wallet.balances(buyer_id)))


class PaymentStepEndpoints:
    """The payment of a reservation, while the bank may ask its buyer."""

    def __init__(self, services: Services, reservations: ReservationEndpoints) -> None:
        self._steps, self._reservations = services.payment_steps, reservations

    async def next(self, request: Request, reservation_id: str) -> Answer:
        found = await self._reservations.find(request, reservation_id)
        return json(PaymentStepOut.of(await self._steps.next(found)))

    async def returned(self, request: Request, reservation_id: str) -> Answer:
        await self._steps.returned(await self._reservations.find(request, reservation_id))
        return no_content()


class PaymentNoticeEndpoints:
    def __init__(self, services: Services) -> None:
        self._audit = services.payments.audit
        self._sandbox_secret = services.settings.payment_sandbox_webhook_secret.get_secret_value()
        self._stripe_secret = services.settings.stripe_webhook_secret.get_secret_value()

    async def sandbox(self, request: Request) -> Answer:
        secret = _configured(self._sandbox_secret)
        try:
            notice = read_sandbox_webhook(secret, request.body, dict(request.connection.headers()))
        except NoticeRefused as exc:
            raise Problem(problems.SIGNATURE_REFUSED, str(exc)) from exc
        return await self._follow(notice)

    async def stripe(self, request: Request) -> Answer:
        # Stripe's library takes longer to import than everything else here, and most servers never need it.
        from holdfast.payments.stripe.webhook import read_webhook  # noqa: PLC0415

        secret = _configured(self._stripe_secret)
        try:
            notice = read_webhook(secret, request.body, request.header("stripe-signature"))
        except NoticeRefused as exc:
            raise Problem(problems.SIGNATURE_REFUSED, str(exc)) from exc
        return await self._follow(notice)

    async def _follow(self, notice: Notice) -> Answer:
        if notice.key is not None:
            await self._audit.hint(notice.key)
        return no_content()


def _configured(secret: str) -> str:
    if not secret:
        raise Problem(problems.NOT_FOUND, "This provider's webhook secret is not configured here.")
    return secret
