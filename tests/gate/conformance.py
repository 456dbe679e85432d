"""The conformance suite: what every engine must do. The tests of an engine subclass it and give it a `desk`."""

from datetime import timedelta

import pytest
from desk import Desk
from msgspec.structs import replace

from every_outcome import EVERY_OUTCOME
from holdfast.domain.command import Command, Expire, Extend, Move, Provision, Restock, Transition, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool, RuleChanges, Rules
from holdfast.domain.reservation import MAX_HOLD_MS, Reservation, Status
from holdfast.domain.rulebook import decide
from worlds import MINUTE, NOW, SKU, hold, reserve, world

ALREADY, ILLEGAL, MOVED, RESERVED = Outcome.ALREADY, Outcome.ILLEGAL, Outcome.MOVED, Outcome.RESERVED
HOUR = timedelta(hours=1) // timedelta(milliseconds=1)
EVERY_RULE = Rules(3, 4, 1, NOW - 1, NOW + HOUR, paused=True)
BATCH_MAX = 512


def cancel(reservation_id: str, owner_id: str | None = None) -> Move:
    return Move(Transition.CANCEL, reservation_id, owner_id)


class GateConformance:
    # --- pools

    @pytest.mark.parametrize("outcome", Outcome)
    async def test_every_outcome_is_the_rulebooks(self, desk: Desk, outcome: Outcome) -> None:
        state, command = EVERY_OUTCOME[outcome]
        await desk.put_world(state)
        assert await desk.gate.apply(SKU, [command]) == decide(state, [command], NOW).verdicts

    async def test_a_pool_is_kept_with_its_rules(self, desk: Desk) -> None:
        pool = Pool(SKU, 500, rules=EVERY_RULE)
        assert await desk.apply(Provision(500, EVERY_RULE)) == [Verdict(MOVED, pool=pool)]
        assert (await desk.books()).pool == pool

    async def test_rules_stay_until_others_are_set(self, desk: Desk) -> None:
        await desk.apply(Provision(5), Provision(5, EVERY_RULE))
        await desk.apply(Provision(6))
        assert (await desk.books()).pool == Pool(SKU, 6, rules=EVERY_RULE)
        await desk.apply(Provision(6, Rules()))
        assert (await desk.books()).pool == Pool(SKU, 6)

    async def test_a_rule_can_be_changed_alone(self, desk: Desk) -> None:
        await desk.apply(Provision(5, EVERY_RULE))
        changed = [
            (RuleChanges(per_owner_limit=9), Rules(9, 4, 1, NOW - 1, NOW + HOUR, paused=True)),
            (RuleChanges(per_owner_limit=None, paused=False), Rules(None, 4, 1, NOW - 1, NOW + HOUR)),
            (RuleChanges(hold_budget=None, required_tier=0), Rules(None, None, 0, NOW - 1, NOW + HOUR)),
            (RuleChanges(opens_at=None, ends_at=None, hold_budget=7), Rules(None, 7, 0)),
            (RuleChanges(), Rules(None, 7, 0)),
        ]
        for changes, expected in changed:
            pool = Pool(SKU, 5, rules=expected)
            assert await desk.apply(Provision(5, changes=changes)) == [Verdict(MOVED, pool=pool)]
            assert (await desk.books()).pool == pool

    async def test_changes_apply_to_the_rules_given_with_them_and_to_none_in_a_new_pool(self, desk: Desk) -> None:
        await desk.apply(Provision(5, changes=RuleChanges(hold_budget=2)))
        assert (await desk.books()).pool == Pool(SKU, 5, rules=Rules(hold_budget=2))
        await desk.apply(Provision(5, Rules(per_owner_limit=3), RuleChanges(paused=True)))
        assert (await desk.books()).pool == Pool(SKU, 5, rules=Rules(per_owner_limit=3, paused=True))

    async def test_a_limit_set_by_a_change_counts_what_came_before_it(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a", "ada", 2))
        limit = Provision(5, changes=RuleChanges(per_owner_limit=2))
        assert await desk.outcomes(limit, reserve("b", "ada")) == [MOVED, Outcome.BUYER_LIMIT]
        assert await desk.outcomes(reserve("c", "ada"), reserve("d", "bob")) == [Outcome.BUYER_LIMIT, RESERVED]

    async def test_a_pool_only_made_if_missing_is_made_once_and_then_left_as_it_is(self, desk: Desk) -> None:
        once = Provision(5, Rules(hold_budget=1), only_if_missing=True)
        again = Provision(9, Rules(per_owner_limit=1), RuleChanges(paused=True), only_if_missing=True)
        pool = Pool(SKU, 5, rules=Rules(hold_budget=1))
        assert await desk.apply(once, again) == [Verdict(MOVED, pool=pool), Verdict(ALREADY, pool=pool)]
        await desk.apply(reserve("a", "ada", 2, ttl_ms=1_000))
        desk.clock.advance(MINUTE)
        before = await desk.books()
        held = Pool(SKU, 5, held=2, active_reservations=1, rules=Rules(hold_budget=1))
        assert await desk.apply(Provision(0, only_if_missing=True), again) == [Verdict(ALREADY, pool=held)] * 2
        assert await desk.books() == before

    async def test_no_command_but_provision_makes_a_pool(self, desk: Desk) -> None:
        commands: list[Command] = [reserve(), Extend("a", 1), cancel("a"), Expire(1), Restock(1)]
        assert await desk.outcomes(*commands) == [Outcome.POOL_NOT_FOUND] * 5
        assert (await desk.books()).pool is None

    async def test_a_pool_is_made_and_sold_from_in_one_batch(self, desk: Desk) -> None:
        assert await desk.outcomes(Provision(1), reserve("a"), reserve("b")) == [MOVED, RESERVED, Outcome.ALL_HELD]

    async def test_stock_changes_are_kept_and_recorded(self, desk: Desk) -> None:
        await desk.apply(Provision(5), Restock(4))
        await desk.apply(Restock(-2))
        books = await desk.books()
        assert books.pool == Pool(SKU, 7)
        assert [(e.type, e.quantity) for e in books.events] == [
            ("pool.provisioned", 5),
            ("pool.restocked", 4),
            ("pool.restocked", -2),
        ]

    async def test_stock_never_falls_below_what_is_committed(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a", quantity=2), reserve("b"), Move(Transition.CONFIRM, "b"))
        assert await desk.outcomes(Restock(-3), Provision(2), Restock(-2)) == [
            Outcome.INSUFFICIENT,
            Outcome.INSUFFICIENT,
            MOVED,
        ]

    async def test_overdue_units_return_before_a_smaller_stock_is_refused(self, desk: Desk) -> None:
        await desk.apply(Provision(3), reserve("a", quantity=2), reserve("b", ttl_ms=2 * MINUTE))
        desk.clock.advance(MINUTE)
        assert await desk.outcomes(Provision(1)) == [MOVED]
        assert (await desk.reservation("a")).status is Status.EXPIRED

    async def test_pools_do_not_touch_one_another(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a", key="k"), sku_id="one")
        await desk.apply(Provision(9), sku_id="two")
        assert await desk.outcomes(cancel("a"), reserve("b", key="k"), sku_id="two") == [Outcome.NOT_FOUND, RESERVED]
        assert (await desk.books("one")).reservations["a"].status is Status.ACTIVE

    # --- reserve

    async def test_a_grant_is_kept_as_it_was_told(self, desk: Desk) -> None:
        await desk.apply(Provision(5))
        told = await desk.granted(reserve("r", "ada", 2, key="k"))
        books = await desk.books()
        assert told == Reservation("r", SKU, "ada", 2, Status.ACTIVE, NOW, NOW + MINUTE)
        assert books.reservations == {"r": told}
        assert books.remembered["ada", "k"].reservation == told
        assert books.pool == Pool(SKU, 5, held=2, active_reservations=1)

    async def test_a_refusal_leaves_no_trace(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a"))
        before = await desk.books()
        desk.clock.advance(1)
        await desk.apply(reserve("b", key="k"), cancel("unknown"), Restock(-1), Expire(5))
        assert await desk.books() == before

    async def test_a_batch_is_decided_in_order(self, desk: Desk) -> None:
        batch = [reserve(f"r{n}", quantity=units) for n, units in enumerate([1, 2, 3, 4, 1, 1])]
        await desk.apply(Provision(7))
        told = await desk.outcomes(*batch)
        assert told == [RESERVED, RESERVED, RESERVED, Outcome.INSUFFICIENT, RESERVED, Outcome.ALL_HELD]

    async def test_a_partial_fill_takes_what_is_there_across_batches(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a", quantity=3))
        assert (await desk.granted(reserve("b", quantity=9, at_least=1))).quantity == 2

    async def test_a_full_batch_is_decided_whole(self, desk: Desk) -> None:
        await desk.apply(Provision(300))
        told = await desk.outcomes(*[reserve(f"r{n:03}", f"o{n}", key=f"k{n}") for n in range(BATCH_MAX)])
        assert told == [RESERVED] * 300 + [Outcome.ALL_HELD] * 212
        assert await desk.outcomes(*[cancel(f"r{n:03}") for n in range(BATCH_MAX)]) == (
            [MOVED] * 300 + [Outcome.NOT_FOUND] * 212
        )

    @pytest.mark.parametrize("text", ["Zoë", "名前 🎟", "a'b\"c\\d", "null", "[1]", "a,b", "%s :rows {}", " a ", "é"])
    async def test_any_text_is_an_owner_or_a_key(self, desk: Desk, text: str) -> None:
        await desk.apply(Provision(5, Rules(per_owner_limit=1)))
        first = await desk.granted(reserve("a", text, key=text))
        assert first.owner_id == text
        assert await desk.outcomes(reserve("b", text, key=text), reserve("c", text)) == [
            Outcome.REPLAYED,
            Outcome.BUYER_LIMIT,
        ]
        assert await desk.outcomes(cancel("a", text + "x"), cancel("a", text)) == [Outcome.NOT_FOUND, MOVED]

    async def test_owners_that_look_alike_are_not_the_same(self, desk: Desk) -> None:
        await desk.apply(Provision(9, Rules(per_owner_limit=1)))
        alike = ["ada", "Ada", "ada ", "àda", "a\u0300da"]
        told = await desk.outcomes(*[reserve(f"r{n}", owner, key="k") for n, owner in enumerate(alike)])
        assert told == [RESERVED] * len(alike)

    async def test_a_limit_set_later_counts_what_owners_had_before(self, desk: Desk) -> None:
        limited = Provision(9, Rules(per_owner_limit=2))
        await desk.apply(Provision(9), reserve("a"), reserve("b", "bob"))
        assert await desk.outcomes(limited, reserve("c", quantity=2), reserve("d")) == [
            MOVED,
            Outcome.BUYER_LIMIT,
            RESERVED,
        ]
        assert await desk.outcomes(Provision(9, Rules()), reserve("e", "bob", 2)) == [MOVED, RESERVED]
        await desk.apply(limited)
        assert await desk.outcomes(reserve("f"), reserve("g", "bob")) == [Outcome.BUYER_LIMIT] * 2

    async def test_the_limit_and_the_budget_are_kept_across_batches(self, desk: Desk) -> None:
        await desk.apply(Provision(9, Rules(per_owner_limit=2, hold_budget=2)), reserve("a", quantity=2))
        assert await desk.outcomes(reserve("b"), cancel("a")) == [Outcome.BUYER_LIMIT, MOVED]
        assert await desk.outcomes(reserve("c"), cancel("c")) == [RESERVED, MOVED]
        assert await desk.outcomes(reserve("d"), reserve("e", "bob")) == [Outcome.HOLD_BUDGET, RESERVED]

    async def test_an_owners_overdue_holds_never_stand_in_their_way(self, desk: Desk) -> None:
        await desk.apply(Provision(9, Rules(per_owner_limit=2)), reserve("a"), reserve("b"))
        desk.clock.advance(MINUTE)
        assert await desk.outcomes(reserve("c", quantity=2)) == [RESERVED]
        assert await desk.history("b") == ["reservation.created", "reservation.expired"]

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
    async def test_moves_are_kept_and_can_be_repeated(self, desk: Desk, path: str, status: Status) -> None:
        await desk.apply(Provision(3), reserve("a", quantity=2))
        for step in path.split():
            assert await desk.outcomes(Move(Transition(step), "a")) == [MOVED]
        assert await desk.outcomes(Move(Transition(step), "a")) == [ALREADY]
        assert (await desk.reservation("a")).status is status
        states = [
            {"settle": "settling", "cancel": "cancelled", "fail": "failed"}.get(s, "confirmed") for s in path.split()
        ]
        assert await desk.history("a") == ["reservation.created", *[f"reservation.{s}" for s in states]]

    async def test_what_has_ended_cannot_be_moved_by_a_later_batch(self, desk: Desk) -> None:
        await desk.apply(Provision(3), reserve("a"), cancel("a"))
        others = [Move(t, "a") for t in Transition if t is not Transition.CANCEL]
        assert await desk.outcomes(*others, Extend("a", 1)) == [ILLEGAL] * 4

    async def test_an_extension_is_kept_and_capped(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a"))
        assert await desk.outcomes(Extend("a", MAX_HOLD_MS - MINUTE)) == [MOVED]
        assert (await desk.reservation("a")).expires_at == NOW + MAX_HOLD_MS
        assert await desk.outcomes(Extend("a", 1)) == [Outcome.EXTENSION_LIMIT]

    async def test_a_sale_may_cap_extensions_earlier(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a"))
        [refused] = await desk.apply(Extend("a", MINUTE, max_hold_ms=2 * MINUTE - 1))
        assert refused.outcome is Outcome.EXTENSION_LIMIT
        assert refused.latest_expires_at == NOW + 2 * MINUTE - 1
        assert await desk.outcomes(Extend("a", MINUTE, max_hold_ms=2 * MINUTE)) == [MOVED]

    async def test_what_is_paid_for_at_once_begins_as_settling_and_has_no_deadline(self, desk: Desk) -> None:
        instant = replace(reserve("a", quantity=2, key="k"), settle=True)
        await desk.apply(Provision(2))
        granted = await desk.granted(instant)
        assert granted.status is Status.SETTLING
        desk.clock.advance(2 * MINUTE)
        [again] = await desk.apply(instant)
        assert (again.outcome, again.reservation) == (Outcome.REPLAYED, granted)
        assert await desk.outcomes(Expire(9), reserve("b"), reserve("b", key="k", quantity=2)) == [
            MOVED,
            Outcome.ALL_HELD,
            Outcome.KEY_REUSED,
        ]
        assert await desk.history("a") == ["reservation.created", "reservation.settling"]
        assert await desk.outcomes(Move(Transition.FAIL, "a"), reserve("c", quantity=2)) == [MOVED, RESERVED]

    async def test_nobody_moves_what_is_not_theirs_or_is_not_there(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a", "ada"))
        commands: list[Command] = [
            cancel("a", "eve"),
            Extend("a", 1, "eve"),
            cancel("b"),
            cancel("a", ""),
            Extend("", 1),
        ]
        assert await desk.outcomes(*commands) == [Outcome.NOT_FOUND] * 5
        assert await desk.outcomes(Extend("a", 1, "ada"), cancel("a", "ada")) == [MOVED, MOVED]

    async def test_a_reservation_lives_its_whole_life_in_one_batch(self, desk: Desk) -> None:
        await desk.apply(Provision(2))
        life: list[tuple[Command, Outcome]] = [
            (reserve("a", key="k"), RESERVED),
            (Extend("a", MINUTE), MOVED),
            (Move(Transition.SETTLE, "a"), MOVED),
            (Move(Transition.FAIL, "a"), MOVED),
            (reserve("b", key="k"), Outcome.REPLAYED),
            (reserve("c", quantity=2), RESERVED),
            (Restock(1), MOVED),
            (reserve("d"), RESERVED),
            (Move(Transition.CONFIRM, "d"), MOVED),
            (Expire(9), MOVED),
        ]
        assert await desk.outcomes(*[command for command, _ in life]) == [outcome for _, outcome in life]
        assert (await desk.books()).pool == Pool(SKU, 3, held=2, sold=1, active_reservations=1)

    # --- idempotency

    async def test_a_repeat_finds_the_first_answer_through_any_gate_and_at_any_time(self, desk: Desk) -> None:
        await desk.apply(Provision(1))
        first = await desk.granted(reserve("a", key="k"))
        await desk.apply(Extend("a", MINUTE), cancel("a"), reserve("b", "bob"))
        desk.clock.advance(23 * HOUR)
        assert await desk.another().apply(reserve("c", key="k")) == [Verdict(Outcome.REPLAYED, first)]

    async def test_a_key_serves_one_request_of_one_owner(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a", "ada", key="k"))
        told = await desk.outcomes(reserve("b", "ada", 2, key="k"), reserve("c", "bob", key="k"))
        assert told == [Outcome.KEY_REUSED, RESERVED]

    async def test_a_refused_key_may_win_later(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a"))
        assert await desk.outcomes(reserve("b", key="k")) == [Outcome.ALL_HELD]
        await desk.apply(cancel("a"))
        assert await desk.outcomes(reserve("c", key="k")) == [RESERVED]

    # --- deadlines

    async def test_an_overdue_unit_serves_the_next_buyer_in_the_same_batch(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a"))
        desk.clock.advance(MINUTE - 1)
        assert await desk.apply(reserve("b")) == [
            Verdict(Outcome.ALL_HELD, available=0, next_return_at=NOW + MINUTE, retry_after_ms=1)
        ]
        desk.clock.advance(1)
        assert await desk.outcomes(reserve("b"), reserve("c")) == [RESERVED, Outcome.ALL_HELD]

    async def test_overdue_units_return_earliest_first(self, desk: Desk) -> None:
        holds = [reserve(id_, quantity=2, ttl_ms=ttl) for id_, ttl in (("c", 3_000), ("a", 1_000), ("b", 2_000))]
        await desk.apply(Provision(6), *holds)
        desk.clock.advance(MINUTE)
        await desk.apply(reserve("new", quantity=3))
        expired = {id_ for id_, r in (await desk.books()).reservations.items() if r.status is Status.EXPIRED}
        assert expired == {"a", "b"}

    async def test_expire_returns_up_to_its_limit(self, desk: Desk) -> None:
        await desk.apply(Provision(20), *[reserve(f"r{n}", quantity=2) for n in range(5)], reserve("z", ttl_ms=HOUR))
        desk.clock.advance(MINUTE)
        told = [(await desk.apply(Expire(limit)))[0].units for limit in (0, 2, 2, 2, 2)]
        assert told == [0, 4, 4, 2, 0]

    async def test_expire_finds_what_is_due_behind_an_owners_own_overdue_holds(self, desk: Desk) -> None:
        """An owner at their limit ends many holds at once, and none of those is left for `expire` to find."""
        await desk.apply(Provision(20, Rules(per_owner_limit=9)), *[reserve(f"a{n}", "ada") for n in range(9)])
        await desk.apply(reserve("b", "bob", ttl_ms=MINUTE + 1))
        desk.clock.advance(2 * MINUTE)
        [_, swept] = await desk.apply(reserve("a9", "ada"), Expire(1))
        assert swept.units == 1

    async def test_units_being_paid_for_outlive_their_deadline(self, desk: Desk) -> None:
        await desk.apply(Provision(1), reserve("a"), Move(Transition.SETTLE, "a"))
        desk.clock.advance(HOUR)
        told = await desk.outcomes(Expire(9), reserve("b"), Move(Transition.CONFIRM, "a"))
        assert told == [MOVED, Outcome.ALL_HELD, MOVED]

    # --- time

    async def test_time_never_runs_backwards(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a"))
        desk.clock.advance(-HOUR)
        assert (await desk.granted(reserve("b"))).created_at == NOW

    async def test_time_does_not_run_back_past_an_extension(self, desk: Desk) -> None:
        await desk.apply(Provision(5), reserve("a"))
        desk.clock.advance(MINUTE // 2)
        await desk.apply(Extend("a", MINUTE))
        desk.clock.advance(-HOUR)
        assert (await desk.granted(reserve("b"))).created_at == NOW + MINUTE // 2

    async def test_a_clock_set_back_does_not_give_overdue_holds_their_time_again(self, desk: Desk) -> None:
        await desk.apply(Provision(2), reserve("a"))
        desk.clock.advance(MINUTE)
        await desk.apply(reserve("b"))
        desk.clock.advance(-HOUR)
        assert await desk.outcomes(Extend("a", MINUTE)) == [ILLEGAL]

    async def test_hope_is_the_earliest_deadline_that_is_left(self, desk: Desk) -> None:
        """Some of the holds are overdue, and the batch itself moves the ones that would come next."""
        holds = [hold(f"h{n}", due_in=n * 1_000) for n in range(-2, 9)]
        await desk.put_world(world(len(holds), *holds))
        moves: list[Command] = [Extend("h1", MINUTE), Move(Transition.SETTLE, "h2"), Move(Transition.CONFIRM, "h3")]
        verdicts = await desk.gate.apply(SKU, [*moves, *[reserve(f"new{n}") for n in range(4)]])
        assert [v.outcome for v in verdicts[3:]] == [RESERVED] * 3 + [Outcome.ALL_HELD]
        assert verdicts[-1].next_return_at == NOW + 4_000
