"""The ledger against the books of the payment sandbox: two witnesses that know nothing of each other.

The sandbox is asked first and the ledger is looked at afterwards, so money that moves in between is known to the ledger
as under way.
"""

from collections.abc import Iterable
from typing import Any

import httpx
import msgspec
from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.domain.sale import PaymentKind
from holdfast.errors import Unavailable
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.verify.check import EXAMPLES_MAX, Finding, Level
from holdfast.verify.under_way import UNDER_WAY

PAGE = 1_000
TIMEOUT_S = 30.0


class Entry(Struct, frozen=True):
    """What the sandbox's books say of one payment, as far as it matters here."""

    key: str
    state: str
    captured: int = 0
    captures: int = 0
    refunded: int = 0


class _Page(Struct, frozen=True):
    payments: list[Entry]
    next: int | None = None


class _Paid(Struct, frozen=True):
    """What the ledger says of one payment by the sandbox."""

    key: str
    amount: int
    is_ordered: bool
    is_under_way: bool
    given_back: int
    giving_back: int


async def read_books(url: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    after: int | None = 0
    try:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            while after is not None:
                answer = await client.get("/books", params={"after": after, "limit": PAGE})
                answer.raise_for_status()
                page = msgspec.json.decode(answer.content, type=_Page)
                entries |= {entry.key: entry for entry in page.payments}
                after = page.next
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as exc:
        raise Unavailable(f"the books of the sandbox at {url} cannot be read: {exc}") from exc
    return entries


def compare(connection: Connection, books: dict[str, Entry]) -> list[Finding]:
    paid = {one.key: one for one in _read_ledger(connection)}
    ordered = [one for one in paid.values() if one.is_ordered]
    charged = [entry for entry in books.values() if entry.captured]
    known = [one for one in paid.values() if one.key in books]
    return [
        _finding(
            "sandbox_charged_once",
            "By the sandbox's own books, every order was charged exactly once, over its amount.",
            len(ordered),
            (_beside(one, books.get(one.key)) for one in ordered if not _is_charged_once(one, books.get(one.key))),
        ),
        _finding(
            "sandbox_charges_end",
            "Every charge in the sandbox's books is an order here, was given back there, or is being worked on.",
            len(charged),
            (msgspec.to_builtins(entry) for entry in charged if not _ends(entry, paid.get(entry.key))),
        ),
        _finding(
            "sandbox_refunds_agree",
            "The sandbox gave back what the ledger says it did.",
            len(known),
            (_beside(one, books[one.key]) for one in known if not _is_given_back(one, books[one.key])),
        ),
    ]


def _is_charged_once(one: _Paid, entry: Entry | None) -> bool:
    return entry is not None and entry.captures == 1 and entry.captured == one.amount


def _ends(entry: Entry, one: _Paid | None) -> bool:
    if entry.refunded >= entry.captured:
        return True
    return one is not None and (one.is_ordered or one.is_under_way or one.giving_back > 0)


def _is_given_back(one: _Paid, entry: Entry) -> bool:
    return one.given_back <= entry.refunded <= one.given_back + one.giving_back


def _beside(one: _Paid, entry: Entry | None) -> dict[str, Any]:
    there = {"captures": 0, "captured": 0, "refunded": 0} if entry is None else msgspec.to_builtins(entry)
    return {"key": one.key, "amount": one.amount, "given_back": one.given_back} | there


def _finding(name: str, means: str, looked_at: int, found: Iterable[dict[str, Any]]) -> Finding:
    examples = list(found)
    return Finding(name, means, Level.FAILURE, looked_at, len(examples), examples[:EXAMPLES_MAX])


def _read_ledger(connection: Connection) -> list[_Paid]:
    amount = func.coalesce(func.sum(refunds.c.amount), 0)
    of_payment = select(amount).where(refunds.c.payment_key == payments.c.payment_key)
    query = (
        select(
            payments.c.payment_key,
            payments.c.amount,
            orders.c.order_id.is_not(None),
            settlements.c.state.in_(UNDER_WAY),
            of_payment.where(refunds.c.state == "done").scalar_subquery(),
            of_payment.where(refunds.c.state.in_(UNDER_WAY)).scalar_subquery(),
        )
        .outerjoin(
            orders,
            (orders.c.reservation_id == payments.c.reservation_id) & (orders.c.payment == PaymentKind.SANDBOX),
        )
        .outerjoin(settlements, settlements.c.reservation_id == payments.c.reservation_id)
        .where(payments.c.provider == PaymentKind.SANDBOX)
    )
    return [
        _Paid(row[0], row[1], bool(row[2]), bool(row[3]), int(row[4]), int(row[5])) for row in connection.execute(query)
    ]
