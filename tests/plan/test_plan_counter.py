"""Who is answered when more ask than can be answered."""

import pytest

from holdfast.plan.counter import Asked, turn

NOTHING = Asked(0, 0.001)


def test_everyone_is_answered_where_there_is_time() -> None:
    decided = turn([Asked(100, 0.001), Asked(10, 0.003)], [Asked(10, 0.001)], Asked(10, 0.005), 0.2)
    assert (decided.answered, decided.settled, decided.round_s) == (1, 1, 0)


def test_where_there_is_not_all_get_the_same_part() -> None:
    decided = turn([Asked(300, 0.001), Asked(20, 0.005)], [], NOTHING, 0.2)
    assert decided.answered == pytest.approx(0.5)


def test_orders_are_settled_beside_the_answers_step_by_step() -> None:
    decided = turn([Asked(10_000, 0.001)], [], Asked(1_000, 0.012), 0.2)
    # 256 orders and 256 requests are under way at once, and of an order a twelfth is done in its turn.
    assert decided.round_s == pytest.approx(2 * 0.256)
    assert decided.settled * 1_000 * 0.012 == pytest.approx(0.1)
    assert decided.answered * 10_000 * 0.001 == pytest.approx(0.1)


def test_those_who_join_come_after_those_who_buy_but_not_after_orders() -> None:
    decided = turn([Asked(50, 0.001)], [Asked(70_000, 0.001), Asked(30_000, 0.001)], Asked(1_000, 0.012), 0.2)
    assert decided.answered == 1
    assert decided.settled * 1_000 * 0.012 == pytest.approx(0.1)


@pytest.mark.parametrize("joins", [0, 3, 10_000])
@pytest.mark.parametrize(("asked", "orders"), [(50, 10_000), (10_000, 5), (0, 500), (500, 0)])
def test_no_time_is_lost_and_none_is_made_up(asked: int, orders: int, joins: int) -> None:
    decided = turn([Asked(asked, 0.001)], [Asked(joins, 0.001)], Asked(orders, 0.001), 0.2)
    spent = decided.answered * asked * 0.001 + decided.settled * orders * 0.001
    assert spent <= 0.2 + 1e-9
    assert spent + joins * 0.001 >= 0.2 - 1e-9
    assert 0 <= decided.answered <= 1
    assert 0 <= decided.settled <= 1
