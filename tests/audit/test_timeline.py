"""What a buyer's story says, for every refusal and every event there is."""

from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.audit.refusal import Refusal
from holdfast.audit.search import Question, Refusals
from holdfast.audit.timeline import Known, Moment, merge, read_ledger
from holdfast.domain.stock.command import Command, Move, Provision, Reserve, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.testing.outcomes import EVERY_OUTCOME
from holdfast.testing.states import MINUTE, NOW
from set_clock import SetClock

REFUSED = [outcome for outcome, (_, command) in EVERY_OUTCOME.items() if isinstance(command, Reserve)]
NOTHING = Refusals([], {}, [])


def told(total: int | None = 500, **facts: Any) -> str:
    known: dict[str, Any] = {"at_ms": NOW, "sku_id": "sku", "owner_id": "ada", "quantity": 1, "outcome": "sold_out"}
    refusal = Refusal(**known | facts)
    totals = {} if total is None else {"sku": total}
    [moment] = merge(Refusals([refusal], {}, []), Known([], totals), 10)
    return moment.what


@pytest.mark.parametrize("outcome", [o for o in REFUSED if not o.is_success])
def test_every_refusal_has_words_of_its_own(outcome: Outcome) -> None:
    said = told(outcome=outcome.value, available=0)
    assert said.startswith("refused: ")
    assert len(said.split()) > 3, "a sentence, and not only the name of the outcome"


def test_refusals_for_stock_say_how_it_stood() -> None:
    assert told(outcome="all_held", next_return_at=NOW + 4 * MINUTE) == (
        "refused: all 500 units were sold or in carts, next return at 22:17:20"
    )
    assert told(outcome="all_held") == "refused: all 500 units were sold or being paid"
    assert told(outcome="sold_out", total=None) == "refused: every unit was sold"
    assert told(outcome="insufficient", quantity=3, available=2) == "refused: 3 units requested, 2 available"
    assert "at 2023-11-15 22:13:20" in told(outcome="all_held", next_return_at=NOW + 24 * 60 * MINUTE)


async def story(database: Database, question: Question) -> list[tuple[int, str]]:
    def read(connection: Connection) -> Known:
        return read_ledger(connection, question)

    return [(m.at - NOW, m.what) for m in merge(NOTHING, await database.read(read), question.limit)]


async def test_what_became_of_reservations_is_told_in_order(database: Database) -> None:
    clock = SetClock(database)
    gate = SqlGate(clock)
    paid, late = (f"rsv_{number:032}_sku" for number in (1, 2))

    async def decide(*commands: Command) -> None:
        await gate.apply("sku", commands)
        clock.advance(1_000)

    await decide(Provision(5), Reserve(paid, "ada", 2, 2), Reserve(late, "ada", 1, 1, 60_000))
    await decide(Move(Transition.SETTLE, paid))
    await decide(Move(Transition.CONFIRM, paid), Reserve(f"rsv_{3:032}_sku", "bob", 1, 1))
    clock.advance(MINUTE)
    await decide(Move(Transition.CONFIRM, late))
    assert await story(database, Question("ada")) == [
        (0, "reserved: 2 units, payment due by 22:18:20"),
        (0, "reserved: 1 unit, payment due by 22:14:20"),
        (1_000, "settling: payment started"),
        (2_000, "confirmed: 2 units sold"),
        (63_000, "expired: not paid in time, 1 unit returned"),
    ]
    assert await story(database, Question("ada", since_ms=NOW + 1, until_ms=NOW + 1_001)) == [
        (1_000, "settling: payment started")
    ]
    assert len(await story(database, Question("ada", limit=2))) == 2
    assert await story(database, Question("ada", sku_id="other")) == await story(database, Question("nobody")) == []


def test_refusals_and_reservations_are_one_story() -> None:
    refusals = [Refusal(NOW + at, "sku", "ada", "sold_out", 1) for at in (1, 3)]

    class Event:
        type, sku_id, quantity, reservation_id, expires_at, subject = "reservation.failed", "sku", 1, "r", NOW, None
        at = NOW + 2

    moments = merge(Refusals(refusals, {}, []), Known([Event()], {}), 10)
    assert [moment.type for moment in moments] == ["refused", "reservation.failed", "refused"]
    assert len(merge(Refusals(refusals, {}, []), Known([Event()], {}), 2)) == 2


def test_who_joins_right_after_a_refusal_joined_after_it() -> None:
    refusals = Refusals([Refusal(NOW, "sku", "ada", "harder_puzzle", 0)], {}, [])
    joined = Moment(NOW, "room.joined", "joined the waiting room: 1st in line", "sku")
    assert [moment.type for moment in merge(refusals, Known([], {}), 10, [joined])] == ["refused", "room.joined"]
