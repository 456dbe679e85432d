"""Wallets: double entry, so that every transfer balances, and every payment and refund moved its money once."""

from sqlalchemy import ColumnElement, and_, case, exists, func, literal, or_, select

from holdfast.domain.sale.sale import PaymentKind
from holdfast.ledger.tables.money import payments, refunds, wallet_accounts, wallet_entries
from holdfast.verify.check import Check
from holdfast.verify.in_progress import IN_PROGRESS

_entries = wallet_entries.c
_BUYER = "buyer:"


def _account_of(buyer_id: ColumnElement[str]) -> ColumnElement[str]:
    return literal(_BUYER).concat(buyer_id)


_balance = Check(
    "transfers_balance",
    "The entries of every transfer add up to zero.",
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
    "Every entry belongs to an existing wallet.",
    wallet_entries,
    select(_sums.c.account, _sums.c.currency, _sums.c.amount).where(~exists().where(_its_sum)),
)

_not_negative = Check(
    "balances_not_negative",
    "No wallet has a negative balance.",
    wallet_accounts,
    select(wallet_accounts.c.buyer_id, wallet_accounts.c.balance).where(wallet_accounts.c.balance < 0),
)

_moves = (
    select(
        _entries.reservation_id,
        _entries.account,
        _entries.currency,
        func.sum(case((_entries.amount < 0, -_entries.amount), else_=0)).label("taken"),
        func.sum(case((_entries.amount > 0, _entries.amount), else_=0)).label("credited"),
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
    "Every wallet payment was debited from the buyer's wallet exactly once.",
    payments,
    select(payments.c.payment_key, payments.c.reservation_id, payments.c.amount, _taken.label("taken"))
    .outerjoin(_moves, _its_move)
    .where(_is_charge, _taken != payments.c.amount),
)
_taken_for_payment = Check(
    "wallet_moves_have_payment",
    "Every debit for a reservation has a payment.",
    wallet_entries,
    select(_moves.c.reservation_id, _moves.c.account, _moves.c.taken).where(
        _moves.c.taken > 0, ~exists().where(_its_move, _is_charge)
    ),
)

_refunded = (
    select(
        refunds.c.payment_key,
        func.sum(case((refunds.c.state == "done", refunds.c.amount), else_=0)).label("done"),
        func.sum(case((refunds.c.state.in_(IN_PROGRESS), refunds.c.amount), else_=0)).label("in_progress"),
    )
    .group_by(refunds.c.payment_key)
    .subquery("refunded")
)
_credited = func.coalesce(_moves.c.credited, 0)
_done = func.coalesce(_refunded.c.done, 0)
_credited_once = Check(
    "wallet_refunds_moved",
    "Every wallet refund was credited to the buyer's wallet exactly once.",
    refunds,
    select(payments.c.payment_key, _done.label("refunded"), _credited.label("credited"))
    .outerjoin(_moves, _its_move)
    .outerjoin(_refunded, _refunded.c.payment_key == payments.c.payment_key)
    .where(_is_charge, or_(_credited < _done, _credited > _done + func.coalesce(_refunded.c.in_progress, 0))),
)

CHECKS = (_balance, _add_up, _have_account, _not_negative, _taken_once, _taken_for_payment, _credited_once)
