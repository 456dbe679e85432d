"""What a hand or a defect could do to a ledger, and which checks must say so."""

from collections.abc import Callable

from msgspec import Struct
from sold_world import PRICE, SKU, change_order, id_of, insert_payment, insert_refund, move
from sqlalchemy import Connection, Table, delete, insert, select, text, update

from holdfast.domain.sale.sale import PaymentKind, order_id_of
from holdfast.ledger.tables.chain import links, redacted_events
from holdfast.ledger.tables.money import payments, settlements, wallet_accounts, wallet_entries
from holdfast.ledger.tables.sales import drop_units, drops, orders
from holdfast.ledger.tables.stock import claims, events, idempotency, pools, reservations, splits, transfers
from holdfast.testing.states import NOW

Tamper = Callable[[Connection], None]


class Case(Struct, frozen=True):
    name: str
    tamper: Tamper
    named: set[str]


CASES: list[Case] = []


def names(*checks: str) -> Callable[[Tamper], Tamper]:
    """The checks that must name this, and no other."""

    def register(tamper: Tamper) -> Tamper:
        CASES.append(Case(tamper.__name__, tamper, set(checks)))
        return tamper

    return register


def loosen(connection: Connection, table: Table) -> None:
    """Take a table's constraints away, as somebody who copies its rows by hand would."""
    for statement in (
        f"CREATE TABLE loose AS SELECT * FROM {table.name}",
        f"DROP TABLE {table.name}",
        f"ALTER TABLE loose RENAME TO {table.name}",
    ):
        connection.execute(text(statement))


def change(connection: Connection, table: Table, number: int, **values: object) -> None:
    connection.execute(update(table).where(table.c.reservation_id == id_of(number)).values(**values))


def copy_row(connection: Connection, table: Table, number: int, **values: object) -> None:
    loosen(connection, table)
    row = connection.execute(select(table).where(table.c.reservation_id == id_of(number))).mappings().first()
    connection.execute(insert(table).values(dict(row or {}) | values))


def tell(connection: Connection, number: int, event_type: str, **more: object) -> None:
    [row] = connection.execute(select(reservations).where(reservations.c.reservation_id == id_of(number)))
    told = {"sku_id": SKU, "reservation_id": id_of(number), "type": event_type, "at": NOW, "quantity": row.quantity}
    connection.execute(insert(events).values(told | {"expires_at": row.expires_at} | more))


def forget(connection: Connection, number: int, event_type: str) -> None:
    of_it = (events.c.reservation_id == id_of(number), events.c.type == event_type)
    connection.execute(delete(events).where(*of_it))


def change_pool(connection: Connection, **values: object) -> None:
    connection.execute(update(pools).where(pools.c.sku_id == SKU).values(**values))


# --- stock


@names("pools_count_reservations", "pools_count_events")
def the_count_of_a_pool_is_off(connection: Connection) -> None:
    change_pool(connection, held=pools.c.held + 1)


@names("pools_count_reservations")
def the_number_of_active_reservations_is_off(connection: Connection) -> None:
    change_pool(connection, active_reservations=pools.c.active_reservations + 1)


@names("pools_count_events")
def a_unit_appears_from_nowhere(connection: Connection) -> None:
    change_pool(connection, total=pools.c.total + 1)


@names("pools_within_total", "pools_count_events")
def more_is_sold_than_there_is(connection: Connection) -> None:
    loosen(connection, pools)
    change_pool(connection, total=5)


@names("pools_within_total")
def more_is_claimed_than_there_is(connection: Connection) -> None:
    claim = (id_of(10), SKU, "jon", 19, NOW, NOW, NOW)
    connection.execute(insert(claims).values(claim))


@names("reservations_have_pool", "pools_count_reservations", "reservations_as_told", "keys_have_reservation")
def a_reservation_is_of_no_pool(connection: Connection) -> None:
    change(connection, reservations, 10, sku_id="nowhere")


@names("splits_add_up")
def a_unit_is_lost_between_shards(connection: Connection) -> None:
    connection.execute(insert(splits).values(sku_id="hot", shards=2, total=3))
    connection.execute(insert(transfers).values(donor="hot", receiver="hot/0", number=1, units=2, given_at=NOW))


@names("limits_kept", "keys_have_reservation")
def a_limit_is_broken(connection: Connection) -> None:
    change(connection, reservations, 10, owner_id="dan")
    change(connection, reservations, 10, created_at=NOW + 1)


# --- reservations


@names("reservations_end_once", "pools_count_events")
def a_reservation_ends_twice(connection: Connection) -> None:
    tell(connection, 9, "reservation.expired")


@names("reservations_begin_once", "pools_count_events")
def the_beginning_of_a_reservation_is_missing(connection: Connection) -> None:
    forget(connection, 9, "reservation.created")


@names("reservations_begin_once", "pools_count_events")
def a_reservation_begins_twice(connection: Connection) -> None:
    tell(connection, 10, "reservation.created")


@names("reservations_as_told", "pools_count_events")
def the_end_of_a_reservation_is_missing(connection: Connection) -> None:
    forget(connection, 9, "reservation.cancelled")


@names("transitions_legal")
def a_deadline_was_pushed_back_while_money_moved(connection: Connection) -> None:
    tell(connection, 7, "reservation.extended")
    change(connection, reservations, 7, status="active")
    change_pool(connection, active_reservations=pools.c.active_reservations + 1)


@names("reservations_as_told")
def a_deadline_is_not_what_was_told(connection: Connection) -> None:
    change(connection, reservations, 10, expires_at=reservations.c.expires_at + 1)


@names("events_have_reservation")
def something_is_told_of_a_reservation_that_never_was(connection: Connection) -> None:
    tell(connection, 10, "reservation.extended", reservation_id=id_of(99))


# --- keys


@names("keys_have_reservation")
def a_key_leads_nowhere(connection: Connection) -> None:
    change(connection, idempotency, 9, reservation_id=id_of(99))


@names("keys_have_reservation")
def a_key_leads_to_the_reservation_of_somebody_else(connection: Connection) -> None:
    change(connection, idempotency, 9, reservation_id=id_of(1), quantity=2)


@names("keys_have_one_answer")
def a_key_has_two_answers(connection: Connection) -> None:
    change(connection, reservations, 9, owner_id="jon")
    copy_row(connection, idempotency, 9, owner_id="jon", key="k2")
    connection.execute(delete(idempotency).where(idempotency.c.owner_id == "ivy"))


@names("reservations_have_one_key")
def a_reservation_is_the_answer_to_two_keys(connection: Connection) -> None:
    copy_row(connection, idempotency, 9, key="another")


# --- orders


@names("orders_once", "orders_announced_once")
def a_unit_is_sold_twice(connection: Connection) -> None:
    copy_row(connection, orders, 8, order_id="ord_again")


@names("orders_have_reservation")
def an_order_is_for_more_than_was_reserved(connection: Connection) -> None:
    change_order(connection, 8, quantity=2, amount=2 * PRICE)


@names("orders_have_reservation", "orders_paid")
def an_order_is_of_somebody_else(connection: Connection) -> None:
    change_order(connection, 2, buyer_id="mallory")


@names("orders_have_reservation", "orders_announced_once")
def an_order_is_for_what_was_let_go(connection: Connection) -> None:
    copy_row(connection, orders, 8, order_id="ord_other", reservation_id=id_of(9), buyer_id="ivy")


@names("orders_at_price")
def an_order_is_at_another_price(connection: Connection) -> None:
    change_order(connection, 8, amount=1)


@names("sold_have_order")
def an_order_is_missing(connection: Connection) -> None:
    connection.execute(delete(orders).where(orders.c.reservation_id == id_of(8)))


@names("orders_announced_once")
def nobody_was_told_of_an_order(connection: Connection) -> None:
    forget(connection, 8, "order.confirmed")


@names("settlements_agree")
def a_settlement_ended_otherwise(connection: Connection) -> None:
    change(connection, settlements, 1, ending="failed")


@names("settling_have_work", "payments_resolved")
def nobody_works_on_a_payment(connection: Connection) -> None:
    connection.execute(delete(settlements).where(settlements.c.reservation_id == id_of(7)))


@names("settling_have_work", "payments_resolved")
def nobody_works_on_a_payment_and_redis_is_the_gate(connection: Connection) -> None:
    connection.execute(update(pools).values(epoch=1))
    nobody_works_on_a_payment(connection)


# --- money


@names("charged_once")
def a_second_payment(connection: Connection) -> None:
    copy_row(connection, payments, 2, payment_key="pay_again")


@names("orders_paid")
def an_order_without_payment(connection: Connection) -> None:
    connection.execute(delete(payments).where(payments.c.reservation_id == id_of(2)))


@names("orders_paid")
def a_payment_over_less_than_its_order(connection: Connection) -> None:
    change(connection, payments, 2, amount=1)


@names("orders_paid")
def an_order_whose_payment_goes_back_as_if_there_were_none(connection: Connection) -> None:
    insert_refund(connection, 2, PRICE, order_id=None)


@names("charges_end")
def a_payment_without_order(connection: Connection) -> None:
    insert_payment(connection, 9, "ivy", PRICE, PaymentKind.SANDBOX, "captured")


@names("charges_end")
def a_charge_in_vain_that_is_not_given_back(connection: Connection) -> None:
    connection.execute(text("DELETE FROM refunds WHERE order_id IS NULL"))


@names("charges_end")
def a_refund_that_was_dropped(connection: Connection) -> None:
    connection.execute(text("UPDATE refunds SET state = 'dropped' WHERE order_id IS NULL"))


@names("charges_end")
def money_was_taken_here_for_an_order_that_was_paid_elsewhere(connection: Connection) -> None:
    insert_payment(connection, 8, "Zoë 'quote\" 🎟", PRICE, PaymentKind.SANDBOX, "captured")


@names("payments_resolved")
def a_payment_that_nobody_asks_about(connection: Connection) -> None:
    change(connection, payments, 5, state="attempted")


@names("refunds_within_payment")
def a_refund_that_is_too_large(connection: Connection) -> None:
    connection.execute(text("UPDATE refunds SET amount = amount + 1 WHERE order_id IS NULL"))


@names("refunds_within_payment")
def a_refund_of_no_payment(connection: Connection) -> None:
    insert_refund(connection, 99, 5, order_id=None)


@names("orders_count_refunds")
def a_refund_that_the_order_does_not_count(connection: Connection) -> None:
    insert_refund(connection, 4, 7, order_id=order_id_of(id_of(4)))


@names("orders_refunded_whole")
def a_cancelled_order_without_its_money(connection: Connection) -> None:
    change_order(connection, 4, status="cancelled")


@names("orders_refunded_whole")
def an_order_that_stands_though_its_money_went_back(connection: Connection) -> None:
    change_order(connection, 3, status="confirmed")


# --- wallet


@names("transfers_balance")
def the_other_side_of_a_wallet_entry_is_removed(connection: Connection) -> None:
    of_it = (wallet_entries.c.transfer_id == "pay-1", wallet_entries.c.account == "house")
    connection.execute(delete(wallet_entries).where(*of_it))


@names("transfers_balance", "balances_add_up", "wallet_payments_moved")
def a_wallet_entry_is_removed(connection: Connection) -> None:
    of_it = (wallet_entries.c.transfer_id == "pay-1", wallet_entries.c.account == "buyer:ada")
    connection.execute(delete(wallet_entries).where(*of_it))


@names("balances_add_up")
def a_balance_is_changed(connection: Connection) -> None:
    connection.execute(update(wallet_accounts).where(wallet_accounts.c.buyer_id == "ada").values(balance=999_999))


@names("balances_add_up", "balances_not_negative")
def a_balance_is_negative(connection: Connection) -> None:
    loosen(connection, wallet_accounts)
    connection.execute(update(wallet_accounts).where(wallet_accounts.c.buyer_id == "ada").values(balance=-1))


@names("entries_have_account")
def a_wallet_is_gone(connection: Connection) -> None:
    connection.execute(delete(wallet_accounts).where(wallet_accounts.c.buyer_id == "ada"))


@names("wallet_payments_moved", "balances_add_up")
def a_wallet_is_charged_twice(connection: Connection) -> None:
    move(connection, "pay-1-again", "ada", -2 * PRICE, reservation_id=id_of(1))


@names("wallet_moves_have_payment", "balances_add_up")
def a_wallet_is_charged_for_nothing(connection: Connection) -> None:
    move(connection, "pay-9", "ada", -500, reservation_id=id_of(9))


@names("wallet_refunds_moved", "balances_add_up")
def a_wallet_is_given_money_back_twice(connection: Connection) -> None:
    move(connection, "refund-again", "cid", 2 * PRICE, reservation_id=id_of(3))


@names("wallet_refunds_moved", "orders_count_refunds")
def a_refund_never_reached_the_wallet(connection: Connection) -> None:
    insert_refund(connection, 1, 10, order_id=order_id_of(id_of(1)))


@names("pruned_came_to_nothing")
def a_pruning_that_lost_a_unit(connection: Connection) -> None:
    pruned = {"sku_id": SKU, "type": "pool.pruned", "at": NOW, "quantity": 6, "subject": "3/6/5/digest"}
    connection.execute(insert(events).values(pruned))


@names("pruned_came_to_nothing")
def a_pruning_that_cannot_be_read(connection: Connection) -> None:
    connection.execute(insert(events).values(sku_id=SKU, type="pool.pruned", at=NOW, subject="nothing"))


# --- drops


@names("drop_limits_kept")
def a_buyer_has_more_in_a_drop_than_its_limit(connection: Connection) -> None:
    connection.execute(update(drops).values(per_buyer_limit=2))


@names("drop_units_claimed")
def a_claim_is_missing(connection: Connection) -> None:
    connection.execute(delete(drop_units).where(drop_units.c.reservation_id == id_of(8)))


# --- history


@names("history_unchanged")
def a_link_covers_other_events_than_there_are(connection: Connection) -> None:
    link = {"number": 1, "last_seq": 10**9, "events": 1, "root": "00", "peak": "00", "linked_at": NOW}
    connection.execute(insert(links).values(link))


@names("erasures_recorded")
def an_event_is_said_to_be_redacted_by_no_erasure(connection: Connection) -> None:
    connection.execute(insert(redacted_events).values(seq=1, erased_by=2, hash="00" * 32))
