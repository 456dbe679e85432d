"""Which requests are answered under overload."""

import pytest

from holdfast.lab.plan.request_scheduling import Demand, share_time

NOTHING = Demand(0, 0.001)


def test_every_request_is_answered_if_there_is_time() -> None:
    decided = share_time([Demand(100, 0.001), Demand(10, 0.003)], [Demand(10, 0.001)], Demand(10, 0.005), 0.2)
    assert (decided.answered, decided.settled, decided.round_s) == (1, 1, 0)


def test_under_overload_all_get_the_same_share() -> None:
    decided = share_time([Demand(300, 0.001), Demand(20, 0.005)], [], NOTHING, 0.2)
    assert decided.answered == pytest.approx(0.5)


def test_orders_are_settled_alternating_with_requests() -> None:
    decided = share_time([Demand(10_000, 0.001)], [], Demand(1_000, 0.012), 0.2)
    # 256 orders and 256 requests are under way at once, and a twelfth of an order is done per turn.
    assert decided.round_s == pytest.approx(2 * 0.256)
    assert decided.settled * 1_000 * 0.012 == pytest.approx(0.1)
    assert decided.answered * 10_000 * 0.001 == pytest.approx(0.1)


def test_joins_come_after_purchases_but_not_after_orders() -> None:
    decided = share_time([Demand(50, 0.001)], [Demand(70_000, 0.001), Demand(30_000, 0.001)], Demand(1_000, 0.012), 0.2)
    assert decided.answered == 1
    assert decided.settled * 1_000 * 0.012 == pytest.approx(0.1)


@pytest.mark.parametrize("joins", [0, 3, 10_000])
@pytest.mark.parametrize(("asked", "orders"), [(50, 10_000), (10_000, 5), (0, 500), (500, 0)])
def test_no_time_is_lost_or_invented(asked: int, orders: int, joins: int) -> None:
    decided = share_time([Demand(asked, 0.001)], [Demand(joins, 0.001)], Demand(orders, 0.001), 0.2)
    spent = decided.answered * asked * 0.001 + decided.settled * orders * 0.001
    assert spent <= 0.2 + 1e-9
    assert spent + joins * 0.001 >= 0.2 - 1e-9
    assert 0 <= decided.answered <= 1
    assert 0 <= decided.settled <= 1
