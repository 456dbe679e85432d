"""The ledger beside the books of the payment sandbox, which here are written by hand."""

from msgspec.structs import replace
from sold_world import PRICE, SALE, SoldWorld, id_of

from holdfast.domain.sale.sale import payment_key_of
from holdfast.ledger.engine.database import Database
from holdfast.verify.check import Finding
from holdfast.verify.sandbox import Charged, Entry, Refunded, compare


def key(number: int) -> str:
    return payment_key_of(id_of(number))


BOOKS = {
    entry.key: entry
    for entry in (
        Entry(key(2), "captured", PRICE, 1),
        Entry(key(4), "captured", 3 * PRICE, 1, refunded=100),
        Entry(key(5), "declined"),
        Entry(key(6), "captured", PRICE, 1, refunded=PRICE),
        Entry(key(7), "captured", PRICE, 1),
    )
}


def charged(**changes: str) -> Charged:
    return replace(Charged("bob", id_of(2), SALE.sale_id, "EUR", PRICE), **changes)


async def judged(database: Database, books: dict[str, Entry]) -> dict[str, Finding]:
    if not await database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM orders").scalar()):
        await SoldWorld(database).fill()
    findings = await database.read(lambda connection: compare(connection, books))
    return {finding.name: finding for finding in findings}


async def test_books_that_agree_are_proven(database: Database) -> None:
    findings = await judged(database, BOOKS)
    assert {name: (f.looked_at, f.count) for name, f in findings.items()} == {
        "sandbox_charged_once": (2, 0),
        "sandbox_charges_end": (4, 0),
        "sandbox_refunds_agree": (5, 0),
        "sandbox_payments_agree": (5, 0),
        "sandbox_refunds_known": (0, 0),
    }


async def test_every_way_to_disagree_is_named(database: Database) -> None:
    ways = [
        (Entry(key(2), "captured", PRICE, 2), "sandbox_charged_once"),
        (Entry(key(2), "captured", PRICE - 1, 1), "sandbox_charged_once"),
        (Entry(key(2), "voided"), "sandbox_charged_once"),
        (Entry("pay_unheard_of", "captured", PRICE, 1), "sandbox_charges_end"),
        (Entry(key(5), "captured", PRICE, 1), "sandbox_charges_end"),
        (Entry(key(4), "captured", 3 * PRICE, 1, refunded=99), "sandbox_refunds_agree"),
        (Entry(key(4), "captured", 3 * PRICE, 1, refunded=101), "sandbox_refunds_agree"),
        (Entry(key(2), "captured", PRICE, 1, charge=charged(buyer_id="eve")), "sandbox_payments_agree"),
        (Entry(key(2), "captured", PRICE, 1, charge=charged(currency="USD")), "sandbox_payments_agree"),
        (Entry(key(2), "captured", PRICE, 1, reference="sbx", charge=charged()), "sandbox_payments_agree"),
        (Entry(key(2), "captured", PRICE, 1, refunds=(Refunded("made up", 1),)), "sandbox_refunds_known"),
    ]
    for entry, name in ways:
        findings = await judged(database, BOOKS | {entry.key: entry})
        assert [f.name for f in findings.values() if not f.ok] == [name], entry
        assert findings[name].examples[0]["key"] == entry.key


async def test_an_order_the_sandbox_has_never_heard_of_is_named(database: Database) -> None:
    findings = await judged(database, {k: entry for k, entry in BOOKS.items() if k != key(2)})
    assert [f.name for f in findings.values() if not f.ok] == ["sandbox_charged_once"]


async def test_an_order_that_costs_nothing_is_not_charged(database: Database) -> None:
    await judged(database, BOOKS)
    free = f"UPDATE payments SET amount = 0 WHERE payment_key = '{key(2)}'"
    await database.write(lambda connection: connection.exec_driver_sql(free))
    findings = await judged(database, {k: entry for k, entry in BOOKS.items() if k != key(2)})
    assert findings["sandbox_charged_once"].ok
