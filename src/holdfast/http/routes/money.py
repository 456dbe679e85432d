"""Wallets and refunds, and what providers tell us about payments."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from holdfast.http.fast_lane import require
from holdfast.http.money_problems import key_required, key_reused, notice_refused, refund_refused
from holdfast.http.money_schemas import (
    BalanceOut,
    BuyerId,
    CreditIn,
    Id,
    Key,
    RefundIn,
    RefundOut,
    WalletOut,
    balance_body,
    refund_body,
    wallet_body,
)
from holdfast.http.problems import Problem, forbidden
from holdfast.http.routes.callers import AnyCaller, IdentifiedRoute, OperatorKey, TheHouse, json_response
from holdfast.ledger.keys import Scope
from holdfast.ledger.refunds import RefundProblem, Wanted
from holdfast.ledger.wallet import KeyReused
from holdfast.payments.notice import Notice, NoticeRefused
from holdfast.payments.sandbox.webhooks import read_webhook as read_sandbox_webhook

router = APIRouter(route_class=IdentifiedRoute, tags=["money"])
webhooks = APIRouter(tags=["money"])


@router.post(
    "/v1/wallets/{buyer_id:path}/credit",
    response_model=BalanceOut,
    dependencies=[OperatorKey],
    summary="Add money to a buyer's wallet",
)
async def credit(buyer_id: BuyerId, given: CreditIn, house: TheHouse) -> Response:
    """Once per buyer and key. A repeat gets the first answer again."""
    try:
        balance = await house.cashier.wallet.credit(buyer_id, given.amount, given.currency, given.idempotency_key)
    except KeyReused:
        raise key_reused() from None
    return json_response(balance_body(balance))


@router.get("/v1/wallets/{buyer_id:path}", response_model=WalletOut, summary="What a buyer has")
async def get_wallet(buyer_id: BuyerId, house: TheHouse, caller: AnyCaller) -> Response:
    if caller.buyer_id is None:
        require(caller, Scope.OPERATE)
    elif caller.buyer_id != buyer_id:
        raise forbidden("This is another buyer's wallet.")
    return json_response(wallet_body(buyer_id, await house.cashier.wallet.balances(buyer_id)))


@router.post(
    "/v1/orders/{order_id}/refund",
    response_model=RefundOut,
    dependencies=[OperatorKey],
    summary="Give back the money of an order, or part of it",
)
async def refund(
    order_id: Id,
    given: RefundIn,
    house: TheHouse,
    key: Annotated[Key | None, Header(alias="Idempotency-Key")] = None,
) -> Response:
    """Of an order that was paid outside (`external`), this only records that the money went back."""
    if key is None:
        raise key_required()
    try:
        done = await house.cashier.refunder.request(Wanted(order_id, key, given.amount, given.restock))
    except RefundProblem as problem:
        raise refund_refused(problem) from problem
    return json_response(refund_body(done))


@webhooks.post(
    "/v1/payments/sandbox/webhook", status_code=204, summary="The payment sandbox says that something happened"
)
async def sandbox_webhook(request: Request, house: TheHouse) -> Response:
    """Signed as Standard Webhooks. It is taken as a hint where to look, and never as the truth."""
    secret = house.settings.payment_sandbox_webhook_secret.get_secret_value()
    if not secret:
        raise _not_configured()
    body = await request.body()
    try:
        notice = read_sandbox_webhook(secret, body, dict(request.headers))
    except NoticeRefused as exc:
        raise notice_refused(str(exc)) from exc
    return await _follow(house, notice)


@webhooks.post("/v1/payments/stripe/webhook", status_code=204, summary="Stripe says that something happened")
async def stripe_webhook(request: Request, house: TheHouse) -> Response:
    """With Stripe's signature. It is taken as a hint where to look, and never as the truth."""
    # Stripe's library takes longer to import than everything else here, and most houses never need it.
    from holdfast.payments.stripe.webhook import read_webhook  # noqa: PLC0415

    secret = house.settings.stripe_webhook_secret.get_secret_value()
    if not secret:
        raise _not_configured()
    body = await request.body()
    try:
        notice = read_webhook(secret, body, request.headers.get("stripe-signature"))
    except NoticeRefused as exc:
        raise notice_refused(str(exc)) from exc
    return await _follow(house, notice)


async def _follow(house: TheHouse, notice: Notice) -> Response:
    if notice.key is not None:
        await house.cashier.audit.hint(notice.key)
    return Response(status_code=204)


def _not_configured() -> Problem:
    return Problem(404, "not_found", "Not found", "This provider's webhook secret is not configured here.")
