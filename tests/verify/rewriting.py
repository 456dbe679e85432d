"""Consistent rewrites: somebody changes a row, and the event that made it, so that both say the same.

Only the chain over the events shows them; the books of the payment provider show those that are about its payments.
"""

from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select, text, update

from holdfast.ledger.tables.money import refunds, wallet_accounts, wallet_entries
from holdfast.ledger.tables.room import places
from holdfast.ledger.tables.sales import orders, sales
from holdfast.ledger.tables.stock import events, idempotency, pools, reservations

Rewrite = Callable[[Connection], None]
REWRITES: list[Rewrite] = []


def rewrite(function: Rewrite) -> Rewrite:
    REWRITES.append(function)
    return function


def replace_in_facts(connection: Connection, type_: str, old: str, new: str) -> None:
    changed = text("UPDATE events SET facts = replace(facts, :old, :new) WHERE type = :type AND facts LIKE :like")
    done = connection.execute(changed, {"old": old, "new": new, "type": type_, "like": f"%{old}%"}).rowcount
    assert done > 0, (type_, old)


@rewrite
def a_hold_belongs_to_somebody_else(connection: Connection) -> None:
    connection.execute(update(reservations).where(reservations.c.owner_id == "guest").values(owner_id="mallory"))
    connection.execute(update(idempotency).where(idempotency.c.owner_id == "guest").values(owner_id="mallory"))
    replace_in_facts(connection, "reservation.created", '"guest"', '"mallory"')


@rewrite
def a_key_was_used_for_another_request(connection: Connection) -> None:
    [first] = connection.execute(select(idempotency.c.fingerprint).where(idempotency.c.key == "k9")).scalars()
    connection.execute(update(idempotency).where(idempotency.c.key == "k9").values(fingerprint="1/1/1"))
    replace_in_facts(connection, "reservation.created", first, "1/1/1")


@rewrite
def a_cancelled_hold_never_was(connection: Connection) -> None:
    [gone] = connection.execute(
        select(reservations.c.reservation_id).where(reservations.c.status == "cancelled")
    ).scalars()
    for table in (reservations, idempotency, events):
        connection.execute(delete(table).where(table.c.reservation_id == gone))


@rewrite
def money_was_credited_that_nobody_paid_in(connection: Connection) -> None:
    of_eve = (wallet_accounts.c.buyer_id == "eve", wallet_accounts.c.currency == "EUR")
    [account] = connection.execute(select(wallet_accounts).where(*of_eve))
    entry = select(wallet_entries).where(wallet_entries.c.account == "buyer:eve", wallet_entries.c.currency == "EUR")
    [credited] = connection.execute(entry)
    more = account.balance + 1_000
    connection.execute(update(wallet_accounts).where(*of_eve).values(balance=more))
    for sign in (1, -1):
        is_side = (wallet_entries.c.transfer_id == credited.transfer_id, wallet_entries.c.amount * sign > 0)
        connection.execute(update(wallet_entries).where(*is_side).values(amount=sign * (credited.amount + 1_000)))
    buyers = (wallet_entries.c.account == "buyer:eve", wallet_entries.c.currency == "EUR")
    connection.execute(update(wallet_entries).where(*buyers).values(balance=more))
    about = {"type": "wallet.credited", "subject": credited.transfer_id}
    [event] = connection.execute(select(events).filter_by(**about))
    facts = event.facts.replace(str(credited.amount), str(credited.amount + 1_000))
    connection.execute(update(events).where(events.c.seq == event.seq).values(facts=facts))


@rewrite
def a_refund_was_paid_later_than_it_was(connection: Connection) -> None:
    [refund] = connection.execute(select(refunds).where(refunds.c.key == "some", refunds.c.amount == 99))
    replace_in_facts(connection, "order.refunded", f'"done_at":{refund.done_at}', f'"done_at":{refund.done_at + 5}')
    same = refunds.c.done_at == refund.done_at
    connection.execute(update(refunds).where(same).values(done_at=refund.done_at + 5))


@rewrite
def a_sale_had_another_limit(connection: Connection) -> None:
    connection.execute(update(pools).where(pools.c.sku_id == "hat").values(per_owner_limit=9))
    connection.execute(update(sales).where(sales.c.sale_id == "cards").values(per_buyer_limit=9))
    for type_, name in (("pool.changed", "per_owner_limit"), ("sale.created", "per_buyer_limit")):
        of_it = events.c.sku_id == "hat"
        for event in connection.execute(select(events).where(events.c.type == type_, of_it)).all():
            facts = event.facts.replace(f'"{name}":4', f'"{name}":9')
            connection.execute(update(events).where(events.c.seq == event.seq).values(facts=facts))


@rewrite
def an_order_was_made_at_another_time(connection: Connection) -> None:
    [order] = connection.execute(select(orders).where(orders.c.payment == "external"))
    connection.execute(
        update(orders).where(orders.c.order_id == order.order_id).values(created_at=order.created_at + 5)
    )
    rest = f',"currency":"EUR","fulfil_key":null,"order_id":"{order.order_id}"'
    old, new = (f'"created_at":{at}{rest}' for at in (order.created_at, order.created_at + 5))
    replace_in_facts(connection, "order.confirmed", old, new)


@rewrite
def a_pool_was_stocked_by_an_event_that_never_happened(connection: Connection) -> None:
    connection.execute(update(pools).where(pools.c.sku_id == "loose").values(total=pools.c.total + 5))
    is_it = (events.c.sku_id == "loose", events.c.type == "pool.provisioned")
    [first] = connection.execute(select(events).where(*is_it))
    connection.execute(update(events).where(events.c.seq == first.seq).values(quantity=first.quantity + 5))


@rewrite
def an_event_of_another_release_was_slipped_in(connection: Connection) -> None:
    """Rows that no event made would count as not provable."""
    values = {"seq": 0, "sku_id": "loose", "type": "pool.drift", "at": 1}
    connection.execute(insert(events).values(values))
    [restock] = connection.execute(text("SELECT * FROM restocks")).mappings().fetchmany(1)
    copied = text("INSERT INTO restocks (sale_id, key, units, is_done, created_at) VALUES (:s, 'made up', 1, :t, 1)")
    connection.execute(copied, {"s": restock["sale_id"], "t": True})


@rewrite
def a_pass_was_used_later_than_it_was(connection: Connection) -> None:
    is_it = (places.c.sale_id == "drop", places.c.buyer_id == "ada")
    [used_at] = connection.execute(select(places.c.used_at).where(*is_it)).scalars()
    replace_in_facts(connection, "room.changed", f",{used_at},", f",{used_at + 5},")
    connection.execute(update(places).where(*is_it).values(used_at=used_at + 5))
