"""The part of the conformance suite about deadlines and the time of a pool."""

from datetime import timedelta

import pytest

from holdfast.domain.stock.command import Command, Expire, Extend, Move, Provision, Transition, Verdict
from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.pool_time import CLOCK_SKEW_MS
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import decide
from holdfast.testing.harness import GateHarness
from holdfast.testing.states import MINUTE, NOW, SKU, hold, reserve, state_of

ILLEGAL, MOVED, RESERVED = Outcome.ILLEGAL, Outcome.MOVED, Outcome.RESERVED
HOUR = timedelta(hours=1) // timedelta(milliseconds=1)


class DeadlineConformance:
    # --- deadlines

    async def test_an_overdue_unit_serves_the_next_buyer_in_the_same_batch(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"))
        harness.clock.advance(MINUTE - 1)
        assert await harness.apply(reserve("b")) == [
            Verdict(Outcome.ALL_HELD, available=0, next_return_at=NOW + MINUTE, retry_after_ms=1)
        ]
        harness.clock.advance(1)
        assert await harness.outcomes(reserve("b"), reserve("c")) == [RESERVED, Outcome.ALL_HELD]

    async def test_overdue_units_return_earliest_first(self, harness: GateHarness) -> None:
        holds = [reserve(id_, quantity=2, ttl_ms=ttl) for id_, ttl in (("c", 3_000), ("a", 1_000), ("b", 2_000))]
        await harness.apply(Provision(6), *holds)
        harness.clock.advance(MINUTE)
        await harness.apply(reserve("new", quantity=3))
        expired = {id_ for id_, r in (await harness.snapshot()).reservations.items() if r.status is Status.EXPIRED}
        assert expired == {"a", "b"}

    async def test_expire_returns_up_to_its_limit(self, harness: GateHarness) -> None:
        await harness.apply(Provision(20), *[reserve(f"r{n}", quantity=2) for n in range(5)], reserve("z", ttl_ms=HOUR))
        harness.clock.advance(MINUTE)
        answers = [(await harness.apply(Expire(limit)))[0].units for limit in (0, 2, 2, 2, 2)]
        assert answers == [0, 4, 4, 2, 0]

    @pytest.mark.parametrize(
        "greedy", [reserve(quantity=DUE_RETURNED_MAX + 9), Expire(DUE_RETURNED_MAX + 9), Provision(0)]
    )
    async def test_a_batch_returns_a_portion_however_much_is_due(self, harness: GateHarness, greedy: Command) -> None:
        state = state_of(
            DUE_RETURNED_MAX + 9, *[hold(f"h{n:05}", due_in=n - 9_000) for n in range(DUE_RETURNED_MAX + 9)]
        )
        commands = [
            greedy,
            Provision(DUE_RETURNED_MAX + 9),
            reserve("rest", quantity=DUE_RETURNED_MAX),
            reserve("next"),
        ]
        await harness.put_state(state)
        verdicts = await harness.gate.apply(SKU, commands)
        assert verdicts == decide(state, commands, NOW).verdicts
        assert [v.outcome for v in verdicts[2:]] == [RESERVED, Outcome.ALL_HELD]
        assert verdicts[-1].retry_after_ms == 0
        [later] = await harness.gate.apply(SKU, [reserve("next")])
        assert later.outcome is RESERVED

    async def test_expire_finds_what_is_due_behind_an_owners_own_overdue_holds(self, harness: GateHarness) -> None:
        """An owner at their limit ends many holds at once, and none of those is left for `expire` to find."""
        await harness.apply(Provision(20, Rules(per_owner_limit=9)), *[reserve(f"a{n}", "ada") for n in range(9)])
        await harness.apply(reserve("b", "bob", ttl_ms=MINUTE + 1))
        harness.clock.advance(2 * MINUTE)
        [_, swept] = await harness.apply(reserve("a9", "ada"), Expire(1))
        assert swept.units == 1

    async def test_units_being_paid_for_outlive_their_deadline(self, harness: GateHarness) -> None:
        await harness.apply(Provision(1), reserve("a"), Move(Transition.SETTLE, "a"))
        harness.clock.advance(HOUR)
        answers = await harness.outcomes(Expire(9), reserve("b"), Move(Transition.CONFIRM, "a"))
        assert answers == [MOVED, Outcome.ALL_HELD, MOVED]

    # --- time

    async def test_time_never_runs_backwards(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a"))
        harness.clock.advance(-CLOCK_SKEW_MS)
        assert (await harness.granted(reserve("b"))).created_at == NOW

    @pytest.mark.parametrize("ahead_ms", [CLOCK_SKEW_MS + 1, HOUR, 25 * HOUR])
    async def test_a_pools_time_does_not_stand_still(self, harness: GateHarness, ahead_ms: int) -> None:
        """The last decision was made by a clock that was wrong."""
        harness.clock.advance(ahead_ms)
        await harness.gate.apply(SKU, [Provision(1)])
        harness.clock.advance(-ahead_ms)
        [granted] = await harness.gate.apply(SKU, [reserve("a", ttl_ms=2_000)])
        assert granted.reservation is not None
        assert granted.reservation.created_at == NOW
        harness.clock.advance(2_000)
        assert [verdict.units for verdict in await harness.gate.apply(SKU, [Expire(1)])] == [1]

    async def test_time_does_not_run_back_past_an_extension(self, harness: GateHarness) -> None:
        await harness.apply(Provision(5), reserve("a"))
        harness.clock.advance(MINUTE // 2)
        await harness.apply(Extend("a", MINUTE))
        harness.clock.advance(-1_000)
        assert (await harness.granted(reserve("b"))).created_at == NOW + MINUTE // 2

    async def test_a_clock_set_back_does_not_give_overdue_holds_their_time_again(self, harness: GateHarness) -> None:
        await harness.apply(Provision(2), reserve("a"))
        harness.clock.advance(MINUTE)
        await harness.apply(reserve("b"))
        harness.clock.advance(-1_000)
        assert await harness.outcomes(Extend("a", MINUTE)) == [ILLEGAL]

    async def test_hope_is_the_earliest_deadline_that_is_left(self, harness: GateHarness) -> None:
        """Some of the holds are overdue, and the batch itself moves those that would come next."""
        holds = [hold(f"h{n}", due_in=n * 1_000) for n in range(-2, 9)]
        await harness.put_state(state_of(len(holds), *holds))
        moves: list[Command] = [Extend("h1", MINUTE), Move(Transition.SETTLE, "h2"), Move(Transition.CONFIRM, "h3")]
        verdicts = await harness.gate.apply(SKU, [*moves, *[reserve(f"new{n}") for n in range(4)]])
        assert [v.outcome for v in verdicts[3:]] == [RESERVED] * 3 + [Outcome.ALL_HELD]
        assert verdicts[-1].next_return_at == NOW + 4_000

    async def test_the_time_of_a_confirmation_is_kept(self, harness: GateHarness) -> None:
        await harness.apply(Provision(3), reserve("a"), reserve("b"), reserve("c"), Move(Transition.CONFIRM, "c"))
        harness.clock.advance(1_000)
        await harness.apply(Move(Transition.SETTLE, "a"))
        harness.clock.advance(1_000)
        await harness.apply(Move(Transition.CONFIRM, "a"), Move(Transition.CANCEL, "b"))
        harness.clock.advance(1_000)
        [again] = await harness.apply(Move(Transition.CONFIRM, "a"))
        assert again.reservation == await harness.reservation("a")
        found = (await harness.snapshot()).reservations
        assert {id_: r.confirmed_at for id_, r in found.items()} == {"a": NOW + 2_000, "b": None, "c": NOW}
