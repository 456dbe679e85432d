"""Which requests are answered when server processes are overloaded.

Requests of buyers who were answered before share the time equally: payments, purchases, passes and payment polls.
Newcomers (joins and bots) come after them: joins are shed first, and a browser without a connection has to wait for
one. If the same processes settle orders, settlement alternates with all requests, including joins: one step of each
order in progress, and one response per request.
"""

from msgspec import Struct

from holdfast.lab.plan.capacity import PAYMENTS_PARALLEL

# Requests processed at once; all others wait (the server's admission limit).
REQUESTS_PARALLEL = 256
# An order is settled in steps, and all requests get a turn between two steps.
ORDER_TURNS = 12


class Demand(Struct, frozen=True):
    """A number of requests, and the server time that each needs."""

    count: int
    seconds_each: float

    @property
    def work_s(self) -> float:
        return self.count * self.seconds_each


class TimeShare(Struct, frozen=True):
    """The share of requests answered and of waiting orders settled in a step. `round_s`, if overloaded: the time until
    every request in flight has had its turn."""

    answered: float
    settled: float
    round_s: float = 0.0


def share_time(asked: list[Demand], newcomers: list[Demand], orders: Demand, budget_s: float) -> TimeShare:
    work_s, newcomers_s = sum(one.work_s for one in asked), sum(one.work_s for one in newcomers)
    if work_s + newcomers_s + orders.work_s <= budget_s:
        return TimeShare(1.0, 1.0)
    count = max(sum(one.count for one in (*asked, *newcomers)), 1)
    at_once = min(1.0, REQUESTS_PARALLEL / count) * (work_s + newcomers_s)
    settling = min(orders.count, PAYMENTS_PARALLEL) * orders.seconds_each / ORDER_TURNS
    for_orders_s = min(orders.work_s, budget_s * settling / (at_once + settling)) if settling else 0.0
    # Unused time goes to the other side.
    for_requests_s = min(work_s + newcomers_s, budget_s - for_orders_s)
    for_orders_s = min(orders.work_s, budget_s - for_requests_s)
    answered = min(work_s, for_requests_s) / work_s if work_s else 1.0
    return TimeShare(answered, for_orders_s / orders.work_s if orders.work_s else 1.0, at_once + settling)
