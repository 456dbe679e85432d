"""The conformance suite: what every engine must do. The tests of an engine subclass it (see `holdfast.testing`)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.domain.stock.command import Command, Expire, Extend, Move, Provision, Restock, Transition, Verdict
from holdfast.domain.stock.limits import MAX_HOLD_MS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool, RuleChanges, Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.testing.deadlines import DeadlineConformance
from holdfast.testing.harness import GateHarness
from holdfast.testing.outcomes import EVERY_OUTCOME
from holdfast.testing.states import MINUTE, NOW, SKU, reserve

ALREADY, ILLEGAL, MOVED, RESERVED = Outcome.ALREADY, Outcome.ILLEGAL, Outcome.MOVED, Outcome.RESERVED
HOUR = timedelta(hours=1) // timedelta(milliseconds=1)
EVERY_RULE = Rules(3, 4, 1, NOW - 1, NOW + HOUR, paused=True)
BATCH_MAX = 512


def reopen(reservation_id: str, attempt: int) -> Move:
    return Move(Transition.REOPEN, reservation_id, attempt=attempt)


def cancel(reservation_id: str, owner_id: str | None = None) -> Move:
    return Move(Transition.CANCEL, reservation_id, owner_id)


class GateConformance(DeadlineConformance):
    # --- pools

    @pytest.mark.parametrize("outcome", Outcome)
    async def test_every_outcome_is_the_rulebooks(self, harness: GateHarness, outcome: Outcome) -> None:
        state, command = EVERY_OUTCOME[outcome]
        await harness.put_state(state)
        assert await harness.gate.apply(SKU, [command]) == decide(state, [command], NOW).verdicts

    async def test_a_pool_is_kept_with_its_rules(self, harness: GateHarness) -> None:
        pool = Pool(SKU, 500, rules=EVERY_RULE)
        assert await harness.apply(Provision(500, EVERY_RULE)) == [Verdict(MOVED, pool=pool)]
        assert (await harness.snapshot()).pool == pool

    async def test_rules_stay_until_others_are_set(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), Provision(5, EVERY_RULE))
        await harness.apply(Provision(6))
        assert (await harness.snapshot()).pool == Pool(SKU, 6, rules=EVERY_RULE)
        await harness.apply(Provision(6, Rules()))
        assert (await harness.snapshot()).pool == Pool(SKU, 6)

    async def test_a_rule_can_be_changed_alone(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5, EVERY_RULE))
        changed = [
            (RuleChanges(per_owner_limit=9), Rules(9, 4, 1, NOW - 1, NOW + HOUR, paused=True)),
            (RuleChanges(per_owner_limit=None, paused=False), Rules(None, 4, 1, NOW - 1, NOW + HOUR)),
            (RuleChanges(hold_budget=None, required_tier=0), Rules(None, None, 0, NOW - 1, NOW + HOUR)),
            (RuleChanges(opens_at=None, ends_at=None, hold_budget=7), Rules(None, 7, 0)),
            (RuleChanges(), Rules(None, 7, 0)),
        ]
        for changes, expected in changed:
            pool = Pool(SKU, 5, rules=expected)
            assert await harness.apply(Provision(5, changes=changes)) == [Verdict(MOVED, pool=pool)]
            assert (await harness.snapshot()).pool == pool

    async def test_changes_apply_to_the_rules_given_with_them_and_to_none_in_a_new_pool(
        self, harness: GateHarness
    ) -> None:
        await harness.apply(Provision(5, changes=RuleChanges(hold_budget=2)))
        assert (await harness.snapshot()).pool == Pool(SKU, 5, rules=Rules(hold_budget=2))
        await harness.apply(Provision(5, Rules(per_owner_limit=3), RuleChanges(paused=True)))
        assert (await harness.snapshot()).pool == Pool(SKU, 5, rules=Rules(per_owner_limit=3, paused=True))

    async def test_a_limit_set_by_a_change_counts_what_came_before_it(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a", "ada", 2))
        limit = Provision(5, changes=RuleChanges(per_owner_limit=2))
        assert await harness.outcomes(limit, reserve("b", "ada")) == [MOVED, Outcome.BUYER_LIMIT]
        assert await harness.outcomes(reserve("c", "ada"), reserve("d", "bob")) == [Outcome.BUYER_LIMIT, RESERVED]

    async def test_a_pool_only_made_if_missing_is_made_once_and_then_left_as_it_is(self, harness: GateHarness) -> None:
        once = Provision(5, Rules(hold_budget=1), only_if_missing=True)
        again = Provision(9, Rules(per_owner_limit=1), RuleChanges(paused=True), only_if_missing=True)
        pool = Pool(SKU, 5, rules=Rules(hold_budget=1))
        assert await harness.apply(once, again) == [Verdict(MOVED, pool=pool), Verdict(ALREADY, pool=pool)]
        await harness.apply(reserve("a", "ada", 2, ttl_ms=1_000))
        harness.clock.advance(MINUTE)
        before = await harness.snapshot()
        held = Pool(SKU, 5, held=2, active_reservations=1, rules=Rules(hold_budget=1))
        assert await harness.apply(Provision(0, only_if_missing=True), again) == [Verdict(ALREADY, pool=held)] * 2
        assert await harness.snapshot() == before

    async def test_a_pool_in_a_sale_can_be_kept_from_other_changes(self, harness: GateHarness) -> None:
        change = Provision(9, changes=RuleChanges(per_owner_limit=9), unless_in_sale=True)
        assert await harness.outcomes(change, Provision(5, EVERY_RULE), change) == [MOVED, MOVED, Outcome.ILLEGAL]
        assert (await harness.snapshot()).pool == Pool(SKU, 5, rules=EVERY_RULE)
        closed = Provision(None, changes=RuleChanges(opens_at=None))
        assert await harness.outcomes(closed, change) == [MOVED, MOVED]

    async def test_no_command_but_provision_makes_a_pool(self, harness: GateHarness) -> None:
        commands: list[Command] = [reserve(), Extend("a", 1), cancel("a"), Expire(1), Restock(1)]
        assert await harness.outcomes(*commands) == [Outcome.POOL_NOT_FOUND] * 5
        assert (await harness.snapshot()).pool is None

    async def test_a_pool_is_made_and_sold_from_in_one_batch(self, harness: GateHarness) -> None:
        assert await harness.outcomes(Provision(1), reserve("a"), reserve("b")) == [MOVED, RESERVED, Outcome.ALL_HELD]

    async def test_stock_changes_are_kept_and_recorded(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), Restock(4))
        await harness.apply(Restock(-2))
        snapshot = await harness.snapshot()
        assert snapshot.pool == Pool(SKU, 7)
        assert [(e.type, e.quantity) for e in snapshot.events] == [
            ("pool.provisioned", 5),
            ("pool.restocked", 4),
            ("pool.restocked", -2),
        ]

    async def test_stock_never_falls_below_what_is_committed(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a", quantity=2), reserve("b"), Move(Transition.CONFIRM, "b"))
        assert await harness.outcomes(Restock(-3), Provision(2), Restock(-2)) == [
            Outcome.INSUFFICIENT,
            Outcome.INSUFFICIENT,
            MOVED,
        ]

    async def test_overdue_units_return_before_a_smaller_stock_is_refused(self, harness: GateHarness) -> None:
        await harness.apply(Provision(3), reserve("a", quantity=2), reserve("b", ttl_ms=2 * MINUTE))
        harness.clock.advance(MINUTE)
        assert await harness.outcomes(Provision(1)) == [MOVED]
        assert (await harness.reservation("a")).status is Status.EXPIRED

    async def test_pools_do_not_touch_one_another(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a", key="k"), sku_id="one")
        await harness.apply(Provision(9), sku_id="two")
        assert await harness.outcomes(cancel("a"), reserve("b", key="k"), sku_id="two") == [Outcome.NOT_FOUND, RESERVED]
        assert (await harness.snapshot("one")).reservations["a"].status is Status.ACTIVE

    # --- reserve

    async def test_a_grant_is_kept_as_it_was_told(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5))
        answers = await harness.granted(reserve("r", "ada", 2, key="k"))
        snapshot = await harness.snapshot()
        assert answers == Reservation("r", SKU, "ada", 2, Status.ACTIVE, NOW, NOW + MINUTE)
        assert snapshot.reservations == {"r": answers}
        assert snapshot.remembered["ada", "k"].reservation == answers
        assert snapshot.pool == Pool(SKU, 5, held=2, active_reservations=1)

    async def test_a_refusal_leaves_no_trace(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"))
        before = await harness.snapshot()
        harness.clock.advance(1)
        await harness.apply(reserve("b", key="k"), cancel("unknown"), Restock(-1), Expire(5))
        assert await harness.snapshot() == before

    async def test_a_batch_is_decided_in_order(self, harness: GateHarness) -> None:
        batch = [reserve(f"r{n}", quantity=units) for n, units in enumerate([1, 2, 3, 4, 1, 1])]
        await harness.apply(Provision(7))
        answers = await harness.outcomes(*batch)
        assert answers == [RESERVED, RESERVED, RESERVED, Outcome.INSUFFICIENT, RESERVED, Outcome.ALL_HELD]

    async def test_a_partial_fill_takes_what_is_there_across_batches(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a", quantity=3))
        assert (await harness.granted(reserve("b", quantity=9, at_least=1))).quantity == 2

    async def test_a_full_batch_is_decided_whole(self, harness: GateHarness) -> None:
        await harness.apply(Provision(300))
        answers = await harness.outcomes(*[reserve(f"r{n:03}", f"o{n}", key=f"k{n}") for n in range(BATCH_MAX)])
        assert answers == [RESERVED] * 300 + [Outcome.ALL_HELD] * 212
        assert await harness.outcomes(*[cancel(f"r{n:03}") for n in range(BATCH_MAX)]) == (
            [MOVED] * 300 + [Outcome.NOT_FOUND] * 212
        )

    @pytest.mark.parametrize("text", ["Zoë", "名前 🎟", "a'b\"c\\d", "null", "[1]", "a,b", "%s :rows {}", " a ", "é"])
    async def test_any_text_is_an_owner_or_a_key(self, harness: GateHarness, text: str) -> None:
        await harness.apply(Provision(5, Rules(per_owner_limit=1)))
        first = await harness.granted(reserve("a", text, key=text))
        assert first.owner_id == text
        assert await harness.outcomes(reserve("b", text, key=text), reserve("c", text)) == [
            Outcome.REPLAYED,
            Outcome.BUYER_LIMIT,
        ]
        assert await harness.outcomes(cancel("a", text + "x"), cancel("a", text)) == [Outcome.NOT_FOUND, MOVED]

    async def test_owners_that_look_alike_are_not_the_same(self, harness: GateHarness) -> None:
        await harness.apply(Provision(9, Rules(per_owner_limit=1)))
        alike = ["ada", "Ada", "ada ", "àda", "a\u0300da"]
        answers = await harness.outcomes(*[reserve(f"r{n}", owner, key="k") for n, owner in enumerate(alike)])
        assert answers == [RESERVED] * len(alike)

    async def test_a_limit_set_later_counts_what_owners_had_before(self, harness: GateHarness) -> None:
        limited = Provision(9, Rules(per_owner_limit=2))
        await harness.apply(Provision(9), reserve("a"), reserve("b", "bob"))
        assert await harness.outcomes(limited, reserve("c", quantity=2), reserve("d")) == [
            MOVED,
            Outcome.BUYER_LIMIT,
            RESERVED,
        ]
        assert await harness.outcomes(Provision(9, Rules()), reserve("e", "bob", 2)) == [MOVED, RESERVED]
        await harness.apply(limited)
        assert await harness.outcomes(reserve("f"), reserve("g", "bob")) == [Outcome.BUYER_LIMIT] * 2

    @pytest.mark.parametrize("before", [4, None])
    @pytest.mark.parametrize("is_seen", [False, True])
    async def test_a_hold_granted_before_the_limit_was_lowered_can_be_confirmed(
        self, harness: GateHarness, before: int | None, is_seen: bool
    ) -> None:
        await harness.apply(Provision(9, Rules(per_owner_limit=before)), reserve("a", quantity=2), reserve("b"))
        await harness.apply(Provision(9, Rules(per_owner_limit=1)))
        if is_seen:
            await harness.snapshot()
        harness.clock.advance(1)
        assert await harness.outcomes(reserve("c")) == [Outcome.BUYER_LIMIT]
        confirms = [Move(Transition.CONFIRM, id_) for id_ in ("a", "b")]
        assert await harness.outcomes(*confirms) == [MOVED, MOVED]
        found = (await harness.snapshot()).reservations
        assert {str(r.status) for r in found.values()} == {"confirmed"}

    async def test_the_limit_and_the_budget_are_kept_across_batches(self, harness: GateHarness) -> None:
        await harness.apply(Provision(9, Rules(per_owner_limit=2, hold_budget=2)), reserve("a", quantity=2))
        assert await harness.outcomes(reserve("b"), cancel("a")) == [Outcome.BUYER_LIMIT, MOVED]
        assert await harness.outcomes(reserve("c"), cancel("c")) == [RESERVED, MOVED]
        assert await harness.outcomes(reserve("d"), reserve("e", "bob")) == [Outcome.HOLD_BUDGET, RESERVED]

    async def test_an_owners_overdue_holds_never_stand_in_their_way(self, harness: GateHarness) -> None:
        await harness.apply(Provision(9, Rules(per_owner_limit=2)), reserve("a"), reserve("b"))
        harness.clock.advance(MINUTE)
        assert await harness.outcomes(reserve("c", quantity=2)) == [RESERVED]
        assert await harness.history("b") == ["reservation.created", "reservation.expired"]

    # --- moves

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("settle", Status.SETTLING),
            ("confirm", Status.CONFIRMED),
            ("cancel", Status.CANCELLED),
            ("settle confirm", Status.CONFIRMED),
            ("settle fail", Status.FAILED),
        ],
    )
    async def test_moves_are_kept_and_can_be_repeated(self, harness: GateHarness, path: str, status: Status) -> None:
        await harness.apply(Provision(3), reserve("a", quantity=2))
        for step in path.split():
            assert await harness.outcomes(Move(Transition(step), "a")) == [MOVED]
        assert await harness.outcomes(Move(Transition(step), "a")) == [ALREADY]
        assert (await harness.reservation("a")).status is status
        states = [
            {"settle": "settling", "cancel": "cancelled", "fail": "failed"}.get(s, "confirmed") for s in path.split()
        ]
        assert await harness.history("a") == ["reservation.created", *[f"reservation.{s}" for s in states]]

    async def test_what_has_ended_cannot_be_moved_by_a_later_batch(self, harness: GateHarness) -> None:
        await harness.apply(Provision(3), reserve("a"), cancel("a"))
        others = [Move(t, "a", attempt=1) for t in Transition if t is not Transition.CANCEL]
        assert await harness.outcomes(*others, Extend("a", 1)) == [ILLEGAL] * 5

    async def test_an_extension_is_kept_and_capped(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"))
        harness.clock.advance(MINUTE // 2)
        assert await harness.outcomes(Extend("a", MINUTE)) == [MOVED]
        assert (await harness.reservation("a")).expires_at == NOW + MINUTE // 2 + MINUTE
        assert await harness.outcomes(Extend("a", MAX_HOLD_MS)) == [MOVED]
        assert (await harness.reservation("a")).expires_at == NOW + MAX_HOLD_MS
        assert await harness.outcomes(Extend("a", 1)) == [Outcome.EXTENSION_LIMIT]

    async def test_a_shorter_extension_than_is_left_changes_nothing(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"))
        before = await harness.snapshot()
        assert await harness.outcomes(Extend("a", MINUTE), Extend("a", 1)) == [ALREADY, ALREADY]
        assert await harness.snapshot() == before

    async def test_a_sale_may_cap_extensions_earlier(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"))
        assert await harness.outcomes(Extend("a", MAX_HOLD_MS, max_hold_ms=2 * MINUTE)) == [MOVED]
        assert (await harness.reservation("a")).expires_at == NOW + 2 * MINUTE
        [refused] = await harness.apply(Extend("a", MINUTE, max_hold_ms=2 * MINUTE))
        assert refused.outcome is Outcome.EXTENSION_LIMIT
        assert refused.latest_expires_at == NOW + 2 * MINUTE

    async def test_what_is_paid_for_at_once_begins_as_settling_and_has_no_deadline(self, harness: GateHarness) -> None:
        instant = replace(reserve("a", quantity=2, key="k"), settle=True)
        await harness.apply(Provision(2))
        granted = await harness.granted(instant)
        assert granted.status is Status.SETTLING
        harness.clock.advance(2 * MINUTE)
        [again] = await harness.apply(instant)
        assert (again.outcome, again.reservation) == (Outcome.REPLAYED, granted)
        assert await harness.outcomes(Expire(9), reserve("b"), reserve("b", key="k", quantity=2)) == [
            MOVED,
            Outcome.ALL_HELD,
            Outcome.KEY_REUSED,
        ]
        assert await harness.history("a") == ["reservation.created", "reservation.settling"]
        assert await harness.outcomes(Move(Transition.FAIL, "a"), reserve("c", quantity=2)) == [MOVED, RESERVED]

    # --- a declined payment

    async def test_a_declined_payment_keeps_the_units_until_the_same_deadline(self, harness: GateHarness) -> None:
        await harness.apply(Provision(2), reserve("a", quantity=2), Move(Transition.SETTLE, "a"))
        harness.clock.advance(MINUTE - 1)
        assert await harness.outcomes(reopen("a", 1), reopen("a", 1)) == [MOVED, ALREADY]
        kept = await harness.reservation("a")
        assert (kept.status, kept.expires_at, kept.attempts) == (Status.ACTIVE, NOW + MINUTE, 1)
        assert await harness.outcomes(reserve("b")) == [Outcome.ALL_HELD]
        first, second = (Move(Transition.SETTLE, "a", attempt=number) for number in (1, 2))
        assert await harness.outcomes(first, second, Move(Transition.CONFIRM, "a")) == [ALREADY, MOVED, MOVED]
        moves = ["created", "settling", "reopened", "settling", "confirmed"]
        assert await harness.history("a") == [f"reservation.{move}" for move in moves]
        assert (await harness.reservation("a")).attempts == 2

    async def test_what_is_reopened_can_be_extended_cancelled_or_expire(self, harness: GateHarness) -> None:
        names = ("a", "b", "c")
        await harness.apply(Provision(3), *[reserve(name) for name in names])
        await harness.apply(*[Move(Transition.SETTLE, name) for name in names])
        assert await harness.outcomes(*[reopen(name, 1) for name in names]) == [MOVED] * 3
        assert (await harness.snapshot()).pool == Pool(SKU, 3, held=3, active_reservations=3)
        assert await harness.outcomes(Extend("a", 2 * MINUTE), cancel("b")) == [MOVED, MOVED]
        harness.clock.advance(MINUTE)
        assert await harness.outcomes(Expire(9), reserve("d", quantity=2)) == [MOVED, RESERVED]
        assert (await harness.history("c"))[-1] == "reservation.expired"

    async def test_a_payment_declined_after_the_deadline_ends_the_reservation(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"), Move(Transition.SETTLE, "a"))
        harness.clock.advance(MINUTE)
        assert await harness.outcomes(reopen("a", 1), reserve("b"), reopen("a", 1)) == [MOVED, RESERVED, ILLEGAL]
        assert (await harness.history("a"))[-1] == "reservation.failed"

    async def test_a_late_decline_does_not_release_units_whose_next_payment_is_moving(
        self, harness: GateHarness
    ) -> None:
        settle = Move(Transition.SETTLE, "a")
        await harness.apply(Provision(1), reserve("a"), settle)
        assert await harness.outcomes(reopen("a", 1), settle, reopen("a", 1)) == [MOVED, MOVED, ALREADY]
        assert await harness.outcomes(reopen("a", 1)) == [ALREADY]
        harness.clock.advance(2 * MINUTE)
        assert await harness.outcomes(reopen("a", 1), Expire(9), reserve("b")) == [ALREADY, MOVED, Outcome.ALL_HELD]
        paid = await harness.reservation("a")
        assert (paid.status, paid.attempts) == (Status.SETTLING, 2)

    async def test_nobody_moves_what_is_not_theirs_or_is_not_there(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a", "ada"))
        commands: list[Command] = [
            cancel("a", "eve"),
            Extend("a", 1, "eve"),
            cancel("b"),
            cancel("a", ""),
            Extend("", 1),
        ]
        assert await harness.outcomes(*commands) == [Outcome.NOT_FOUND] * 5
        assert await harness.outcomes(Extend("a", HOUR, "ada"), cancel("a", "ada")) == [MOVED, MOVED]

    async def test_a_reservation_lives_its_whole_life_in_one_batch(self, harness: GateHarness) -> None:
        await harness.apply(Provision(2))
        life: list[tuple[Command, Outcome]] = [
            (reserve("a", key="k"), RESERVED),
            (Extend("a", 2 * MINUTE), MOVED),
            (Move(Transition.SETTLE, "a"), MOVED),
            (Move(Transition.FAIL, "a"), MOVED),
            (reserve("b", key="k"), Outcome.REPLAYED),
            (reserve("c", quantity=2), RESERVED),
            (Restock(1), MOVED),
            (reserve("d"), RESERVED),
            (Move(Transition.CONFIRM, "d"), MOVED),
            (Expire(9), MOVED),
        ]
        assert await harness.outcomes(*[command for command, _ in life]) == [outcome for _, outcome in life]
        assert (await harness.snapshot()).pool == Pool(SKU, 3, held=2, sold=1, active_reservations=1)

    # --- idempotency

    async def test_a_repeat_finds_the_first_answer_through_any_gate_and_at_any_time(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1))
        first = await harness.granted(reserve("a", key="k"))
        await harness.apply(Extend("a", 2 * MINUTE), cancel("a"), reserve("b", "bob"))
        harness.clock.advance(23 * HOUR)
        assert await harness.another().apply(reserve("c", key="k")) == [Verdict(Outcome.REPLAYED, first)]

    async def test_a_key_serves_one_request_of_one_owner(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a", "ada", key="k"))
        answers = await harness.outcomes(reserve("b", "ada", 2, key="k"), reserve("c", "bob", key="k"))
        assert answers == [Outcome.KEY_REUSED, RESERVED]

    async def test_a_refused_key_may_win_later(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"))
        assert await harness.outcomes(reserve("b", key="k")) == [Outcome.ALL_HELD]
        await harness.apply(cancel("a"))
        assert await harness.outcomes(reserve("c", key="k")) == [RESERVED]
