"""The wallet's books: double entry, so nothing comes from nowhere; each payment and refund moved its money once."""

from sqlalchemy import ColumnElement, and_, case, exists, func, literal, or_, select

from holdfast.domain.sale import PaymentKind
from holdfast.ledger.sale_tables import payments, refunds, wallet_accounts, wallet_entries
from holdfast.verify.check import Check
from holdfast.verify.under_way import UNDER_WAY

_entries = wallet_entries.c
_BUYER = "buyer:"


def _account_of(buyer_id: ColumnElement[str]) -> ColumnElement[str]:
    return literal(_BUYER).concat(buyer_id)


_balance = Check(
    "transfers_balance",
    "The entries of every transfer add up to nothing: what one account lost another one got.",
    wallet_entries,
    select(_entries.transfer_id, _entries.currency, func.sum(_entries.amount).label("left_over"))
    .group_by(_entries.transfer_id, _entries.currency)
    .having(func.sum(_entries.amount) != 0),
)

_sums = (
    select(_entries.account, _entries.currency, func.sum(_entries.amount).label("amount"))
    .where(_entries.account.startswith(_BUYER))
    .group_by(_entries.account, _entries.currency)
    .subquery("sums")
)
_its_sum = and_(
    _sums.c.account == _account_of(wallet_accounts.c.buyer_id), _sums.c.currency == wallet_accounts.c.currency
)
_add_up = Check(
    "balances_add_up",
    "The balance of every wallet is the sum of its entries.",
    wallet_accounts,
    select(
        _account_of(wallet_accounts.c.buyer_id).label("account"),
        wallet_accounts.c.balance,
        func.coalesce(_sums.c.amount, 0).label("by_entries"),
    )
    .outerjoin(_sums, _its_sum)
    .where(wallet_accounts.c.balance != func.coalesce(_sums.c.amount, 0)),
)
_have_account = Check(
    "entries_have_account",
    "No entry is of a wallet that does not exist.",
    wallet_entries,
    select(_sums.c.account, _sums.c.currency, _sums.c.amount).where(~exists().where(_its_sum)),
)

_not_negative = Check(
    "balances_not_negative",
    "No wallet has less than nothing.",
    wallet_accounts,
    select(wallet_accounts.c.buyer_id, wallet_accounts.c.balance).where(wallet_accounts.c.balance < 0),
)

_moves = (
    select(
        _entries.reservation_id,
        _entries.account,
        _entries.currency,
        func.sum(case((_entries.amount < 0, -_entries.amount), else_=0)).label("taken"),
        func.sum(case((_entries.amount > 0, _entries.amount), else_=0)).label("given_back"),
    )
    .where(_entries.reservation_id.is_not(None), _entries.account.startswith(_BUYER))
    .group_by(_entries.reservation_id, _entries.account, _entries.currency)
    .subquery("moves")
)
_is_charge = and_(payments.c.provider == PaymentKind.WALLET, payments.c.state == "captured", payments.c.amount > 0)
_its_move = and_(
    _moves.c.reservation_id == payments.c.reservation_id,
    _moves.c.account == _account_of(payments.c.buyer_id),
    _moves.c.currency == payments.c.currency,
)
_taken = func.coalesce(_moves.c.taken, 0)
_taken_once = Check(
    "wallet_payments_moved",
    "Every payment from a wallet took its amount from the buyer's wallet, once.",
    payments,
    select(payments.c.payment_key, payments.c.reservation_id, payments.c.amount, _taken.label("taken"))
    .outerjoin(_moves, _its_move)
    .where(_is_charge, _taken != payments.c.amount),
)
_taken_for_payment = Check(
    "wallet_moves_have_payment",
    "Nothing was taken from a wallet for a reservation without a payment of it.",
    wallet_entries,
    select(_moves.c.reservation_id, _moves.c.account, _moves.c.taken).where(
        _moves.c.taken > 0, ~exists().where(_its_move, _is_charge)
    ),
)

_refunded = (
    select(
        refunds.c.payment_key,
        func.sum(case((refunds.c.state == "done", refunds.c.amount), else_=0)).label("done"),
        func.sum(case((refunds.c.state.in_(UNDER_WAY), refunds.c.amount), else_=0)).label("under_way"),
    )
    .group_by(refunds.c.payment_key)
    .subquery("refunded")
)
_given_back = func.coalesce(_moves.c.given_back, 0)
_done = func.coalesce(_refunded.c.done, 0)
_given_back_once = Check(
    "wallet_refunds_moved",
    "Every refund to a wallet gave its amount back to the buyer's wallet, once.",
    refunds,
    select(payments.c.payment_key, _done.label("refunded"), _given_back.label("given_back"))
    .outerjoin(_moves, _its_move)
    .outerjoin(_refunded, _refunded.c.payment_key == payments.c.payment_key)
    .where(_is_charge, or_(_given_back < _done, _given_back > _done + func.coalesce(_refunded.c.under_way, 0))),
)

CHECKS = (_balance, _add_up, _have_account, _not_negative, _taken_once, _taken_for_payment, _given_back_once)
