"""What holds for any sequence of batches at all."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from msgspec import Struct

from holdfast.domain.stock import needs, rulebook
from holdfast.domain.stock.command import Command, Expire, Provision, Reserve, Verdict
from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import Changes, State
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import NOW, SKU, tallies_of
from model import Model, needed
from profiles import examples
from strategies import Namer, gentle_rules, histories, opening, rules

UNITS = 10

OPEN = {Status.ACTIVE, Status.SETTLING}

History = list[tuple[int, list[Command]]]


class Step(Struct):
    """One batch: the world it met, and what came of it."""

    before: State
    now: int
    batch: list[Command]
    verdicts: list[Verdict]
    snapshot: LedgerSnapshot

    def pairs(self) -> Iterator[tuple[Command, Verdict]]:
        return zip(self.batch, self.verdicts, strict=True)


def play(history: History, given_rules: Rules, *, settled: bool = False) -> Iterator[Step]:
    """Let the history happen to a pool with these rules, which stay as they are if it is settled."""
    model, namer, now = Model(SKU), Namer(SKU), NOW
    for step_ms, batch in [(0, opening(UNITS, given_rules)), *history]:
        now += step_ms
        named = namer.name(
            [c for c in batch if model.snapshot.pool is None or not (settled and isinstance(c, Provision))]
        )
        before = model.state()
        verdicts = model.apply(named, now)
        namer.learn(named, verdicts)
        yield Step(before, now, named, verdicts, model.snapshot)


@given(histories, rules | gentle_rules)
def test_the_books_are_right_after_every_batch(history: History, given_rules: Rules) -> None:
    for step in play(history, given_rules):
        assert len(step.verdicts) == len(step.batch)
        step.snapshot.check()


@given(histories, gentle_rules)
def test_the_end_of_a_reservation_is_final(history: History, given_rules: Rules) -> None:
    ended: dict[str, Reservation] = {}
    for step in play(history, given_rules):
        for reservation_id, reservation in ended.items():
            assert step.snapshot.reservations[reservation_id] == reservation
        ended = {i: r for i, r in step.snapshot.reservations.items() if r.status not in OPEN}


@given(histories)
def test_no_owner_ever_has_more_than_the_limit(history: History) -> None:
    for step in play(history, Rules(per_owner_limit=3), settled=True):
        tallies = tallies_of(step.snapshot.reservations.values())
        assert all(tally.live_units <= 3 for tally in tallies.values())


@given(histories, gentle_rules)
def test_one_key_of_one_owner_is_one_reservation_for_ever(history: History, given_rules: Rules) -> None:
    first_answers: dict[tuple[str, str], Reservation] = {}
    for step in play(history, given_rules):
        for command, verdict in step.pairs():
            if isinstance(command, Reserve) and command.key is not None and verdict.reservation is not None:
                first = first_answers.setdefault((command.owner_id, command.key), verdict.reservation)
                assert verdict.reservation == first


@given(histories, gentle_rules)
def test_a_grant_is_within_what_was_asked(history: History, given_rules: Rules) -> None:
    for step in play(history, given_rules):
        for command, verdict in step.pairs():
            if isinstance(command, Reserve) and verdict.outcome is Outcome.RESERVED:
                check_grant(command, verdict, step.now)


def check_grant(command: Reserve, verdict: Verdict, now: int) -> None:
    granted = verdict.reservation
    assert granted is not None
    assert command.min_quantity <= granted.quantity <= command.quantity
    assert (granted.created_at, granted.expires_at) == (now, now + command.ttl_ms)


@pytest.mark.parametrize("returned_max", [DUE_RETURNED_MAX, 2])
@given(history=histories, given_rules=rules | gentle_rules)
@examples(100, all_=2_000)
def test_deciding_from_what_a_batch_needs_is_deciding_from_everything(
    history: History, given_rules: Rules, returned_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (needs, rulebook):
            patch.setattr(module, "DUE_RETURNED_MAX", returned_max)
        for step in play(history, given_rules):
            from_all = decide(step.before, step.batch, step.now)
            from_needed = decide(needed(step.before, step.batch, step.now), step.batch, step.now)
            assert from_needed.verdicts == from_all.verdicts
            assert in_any_order(from_needed.changes) == in_any_order(from_all.changes)


def in_any_order(changes: Changes) -> tuple[object, ...]:
    moved = sorted(changes.moved, key=lambda r: r.reservation_id)
    return changes.pool, changes.created, moved, changes.remembered, len(changes.events)


@given(histories, rules | gentle_rules)
def test_a_deadline_is_honoured_whether_or_not_the_expirer_came_by(history: History, given_rules: Rules) -> None:
    for step in play(history, given_rules):
        if step.before.pool is None:
            continue
        _, *swept = decide(step.before, [Expire(1_000), *step.batch], step.now).verdicts
        assert [told(verdict) for verdict in step.verdicts] == [told(verdict) for verdict in swept]


def told(verdict: Verdict) -> tuple[object, ...]:
    return verdict.outcome, verdict.reservation, verdict.available, verdict.next_return_at
