"""Who is answered when more ask than can be answered."""

import pytest

from holdfast.plan.counter import Asked, turn

NOTHING = Asked(0, 0.001)


def test_everyone_is_answered_where_there_is_time() -> None:
    decided = turn([Asked(100, 0.001), Asked(10, 0.005)], Asked(10, 0.005), 0.2)
    assert (decided.answered, decided.settled) == (1, 1)


def test_where_there_is_not_all_get_the_same_part() -> None:
    decided = turn([Asked(300, 0.001), Asked(20, 0.005)], NOTHING, 0.2)
    assert decided.answered == pytest.approx(0.5)


def test_orders_are_settled_beside_the_answers_a_few_between_many() -> None:
    decided = turn([Asked(10_000, 0.001)], Asked(1_000, 0.001), 0.2)
    # 64 orders and 256 requests are under way at once.
    assert decided.settled * 1_000 * 0.001 == pytest.approx(0.2 * 64 / (64 + 256))
    assert decided.answered * 10_000 * 0.001 == pytest.approx(0.2 * 256 / (64 + 256))


@pytest.mark.parametrize(("asked", "orders"), [(50, 10_000), (10_000, 5), (0, 500), (500, 0)])
def test_no_time_is_lost_and_none_is_made_up(asked: int, orders: int) -> None:
    decided = turn([Asked(asked, 0.001)], Asked(orders, 0.001), 0.2)
    spent = decided.answered * asked * 0.001 + decided.settled * orders * 0.001
    assert spent == pytest.approx(0.2)
    assert 0 <= decided.answered <= 1
    assert 0 <= decided.settled <= 1
