"""Every check detects its violation, and none reports anything about a successful rush."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from rush_evidence import MADE, PRICE, UNITS, World

from holdfast.domain.room.lottery import Draw, Order, seed_hash
from holdfast.lab.rush.buyers.actions import Lottery
from holdfast.lab.rush.buyers.bots import must_be_refused
from holdfast.lab.rush.buyers.record import BuyerRecord, Ending, Grant, QueuePlace
from holdfast.lab.rush.checks.invariants import CHECKS, check
from holdfast.lab.rush.report.figures import wait_s
from holdfast.lab.rush.server.sale_admin import OrderRow, ReservationRow
from holdfast.lab.rush.server.stock_monitor import Sample
from holdfast.lab.scenarios.scenario import BotKind

Spoil = Callable[[World], None]


def failed(world: World) -> set[str]:
    return {finding.name for finding in check(world.evidence()) if not finding.ok}


def test_a_successful_rush_passes_every_check() -> None:
    assert failed(World()) == set()


def lose_a_reservation(world: World) -> None:
    del world.reservations[0]


def undo_a_sale(world: World) -> None:
    world.reservations[0] = replace(world.reservations[0], status="cancelled")


def sell_without_order(world: World) -> None:
    del world.orders[0]


def order_twice(world: World) -> None:
    world.orders.append(replace(world.orders[0], order_id="ord-again"))


def capture_twice(world: World) -> None:
    world.payments[0] = replace(world.payments[0], captures=2)


def charge_twice_under_two_keys(world: World) -> None:
    world.payments.append(replace(world.payments[0], key="pay-again"))


def take_too_much_from_a_wallet(world: World) -> None:
    world.records[0].credited = 5 * PRICE
    world.balances["ada"] = 3 * PRICE


def keep_money_for_nothing(world: World) -> None:
    world.payments[0] = replace(world.payments[0], captured=2 * PRICE)


def sell_two_to_one(world: World) -> None:
    world.reservations[1] = replace(world.reservations[1], owner_id="ada")


def sell_more_than_there_is(world: World) -> None:
    world.reservations.append(ReservationRow("rsv-9", "eve", 1, "confirmed"))
    world.orders.append(OrderRow("ord-9", "rsv-9", "eve", 1, PRICE, 0, "confirmed", MADE))


def keep_a_hold(world: World) -> None:
    world.stock = replace(world.stock, sold=2, held=1)


def lose_a_unit(world: World) -> None:
    world.stock = replace(world.stock, total_units=4)


def grant_unasked(world: World) -> None:
    world.reservations.append(ReservationRow("rsv-9", "dan", 1, "expired"))


def report_violation(invariant: str) -> Spoil:
    return lambda world: world.records[0].violations.append((invariant, "something violations"))


def sell_after_sold_out(world: World) -> None:
    world.records[3].sold_out_at = 10.0


def leave_some_unsold(world: World) -> None:
    world.stock = replace(world.stock, sold=2, available=1)


def overtake(world: World) -> None:
    ada, bob = world.records[0].places[0], world.records[1].places[0]
    ada.arrival, bob.arrival = bob.arrival, ada.arrival


def free_unit(world: World, *, inside: int) -> None:
    """For six seconds, while a fifth person is in line: with this many called who have not bought."""
    called = [BuyerRecord(4 + n, f"late-{n}", 0, places=[QueuePlace(4.0, 4.1, 4 + n, 5 + n)]) for n in range(inside)]
    world.records += called
    for tenths in range(500, 560, 2):
        world.samples.append(Sample(tenths / 10, UNITS, 1, 0, UNITS - 1, 9, 1, {"sale": 8}))


def leave_a_unit_free(world: World) -> None:
    free_unit(world, inside=0)


def forget_a_buyer(world: World) -> None:
    del world.records[3]


def count_a_buyer_twice(world: World) -> None:
    world.records.append(world.records[3])


def count_a_stranger(world: World) -> None:
    world.records[3].number = 9


def sell_without_telling(world: World) -> None:
    world.records[0].grants[0].status = "settling"
    world.records[0] = replace(world.records[0], ending=Ending.SOLD_OUT)


def let_in_too_early(world: World) -> None:
    world.records[2].places[0].admitted_at = 4.0


def give_one_place_to_two(world: World) -> None:
    world.records[1].places[0].arrival = 0


def let_a_forger_buy(world: World) -> None:
    world.records[0].bot = BotKind.FORGED


SPOILT: list[tuple[Spoil, str]] = [
    (forget_a_buyer, "all_accounted"),
    (count_a_buyer_twice, "all_accounted"),
    (count_a_stranger, "all_accounted"),
    (sell_without_telling, "all_accounted"),
    (lose_a_reservation, "yes_kept"),
    (undo_a_sale, "yes_kept"),
    (sell_without_order, "yes_kept"),
    (report_violation("yes_kept"), "yes_kept"),
    (report_violation("tickets_honoured"), "yes_kept"),
    (order_twice, "charged_once"),
    (capture_twice, "charged_once"),
    (charge_twice_under_two_keys, "charged_once"),
    (take_too_much_from_a_wallet, "charged_once"),
    (keep_money_for_nothing, "charges_end"),
    (sell_two_to_one, "limits_kept"),
    (report_violation("limits_kept"), "limits_kept"),
    (sell_more_than_there_is, "not_oversold"),
    (keep_a_hold, "all_ended"),
    (lose_a_unit, "all_ended"),
    (grant_unasked, "nothing_unasked"),
    (report_violation("same_key_same_answer"), "same_key_same_answer"),
    (sell_after_sold_out, "none_left_behind"),
    (leave_some_unsold, "none_left_behind"),
    (overtake, "order_kept"),
    (let_in_too_early, "order_kept"),
    (give_one_place_to_two, "order_kept"),
    (report_violation("order_kept"), "order_kept"),
    (leave_a_unit_free, "free_units_offered"),
    (let_a_forger_buy, "bots_kept_out"),
    (report_violation("bots_kept_out"), "bots_kept_out"),
    (report_violation("no_server_error"), "no_server_error"),
]


@pytest.mark.parametrize(("spoil", "name"), SPOILT)
def test_a_check_names_the_invariant_that_was_broken(spoil: Spoil, name: str) -> None:
    world = World()
    spoil(world)
    assert name in failed(world)


def test_a_second_card_makes_a_second_payment_that_keeps_nothing() -> None:
    world = World()
    world.payments.append(replace(world.payments[0], key="declined", captured=0, captures=0))
    assert failed(world) == set()


def test_every_check_is_tested_to_fail() -> None:
    assert {name for _, name in SPOILT} == set(CHECKS)


@pytest.mark.parametrize("seen", ["outcome_unknown", "cut_off"])
def test_a_buyer_without_a_response_may_own_units_they_do_not_know_of(seen: str) -> None:
    world = World()
    grant_unasked(world)
    if seen == "outcome_unknown":
        world.records[3].outcome_unknown = True
    else:
        world.records[3] = replace(world.records[3], ending="cut_off")
    assert failed(world) == set()


def test_a_hold_may_end_after_its_buyer_last_saw_it() -> None:
    world = World()
    world.records[3].grants.append(Grant("rsv-9", 1, PRICE, 20.0, 21.0, "active"))
    world.reservations.append(ReservationRow("rsv-9", "dan", 1, "expired"))
    assert failed(world) == set()


def drawn(world: World) -> Order:
    seed, digest = bytes(32), "d" * 64
    world.offer = replace(world.offer, room="lottery")
    world.line = replace(world.line, lottery=Lottery(seed_hash(seed), seed.hex(), 4, digest))
    order = Order(Draw("sale", seed, 4, digest))
    for record in world.records:
        record.places[0].position = order.place_of(record.places[0].arrival) + 1
        record.places[0].admitted_at = 60.0
    return order


def test_a_lottery_is_drawn_again_and_every_place_compared() -> None:
    world = World()
    drawn(world)
    assert failed(world) == set()
    places = [record.places[0] for record in world.records]
    places[0].position, places[1].position = places[1].position, places[0].position
    assert failed(world) == {"order_kept"}


def test_a_lottery_with_another_seed_than_published_is_detected() -> None:
    world = World()
    drawn(world)
    world.line = replace(world.line, lottery=replace(world.line.lottery, seed_hash="0" * 64))
    assert failed(world) == {"order_kept"}


def test_bots_that_follow_the_rules_may_buy() -> None:
    assert not must_be_refused(BotKind.MANY_ACCOUNTS, has_room=True, needs_proof=True)
    assert not must_be_refused(BotKind.HAMMER, has_room=False, needs_proof=False)
    assert must_be_refused(BotKind.HAMMER, has_room=True, needs_proof=False)
    assert must_be_refused(BotKind.NO_PROOF, has_room=True, needs_proof=True)
    assert not must_be_refused(None, has_room=True, needs_proof=True)


def test_a_wait_counts_from_joining_or_from_the_opening_if_that_was_later() -> None:
    world = World()
    assert wait_s(world.records, [world.offer]) == {"p50": 39.0, "p90": 40.0, "p99": 40.0, "max": 40.0}
    opened = replace(world.offer, opens_at=35.0)
    assert wait_s(world.records, [opened]) == {"p50": 5.0, "p90": 5.0, "p99": 5.0, "max": 5.0}
    assert wait_s([], [world.offer]) is None


def test_a_unit_that_four_people_are_called_for_is_offered() -> None:
    """Dan, who is told that it is sold out, is one of them."""
    world = World()
    free_unit(world, inside=3)
    assert "free_units_offered" not in failed(world)


def test_a_unit_is_free_from_the_first_sample_on_that_shows_it() -> None:
    world = World()
    free_unit(world, inside=0)
    world.samples = world.samples[-10:]
    assert "free_units_offered" not in failed(world)
