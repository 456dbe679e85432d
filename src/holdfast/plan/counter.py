"""Who is answered when more ask than server processes can answer.

All who have been answered before are served side by side: if there is time for a part of them, then for the same part
of those who pay, who buy, who fetch their pass and who look how their payment stands. Whoever wants to join comes after
them (http/shedding.py refuses joins first, and a browser that has no connection yet waits for one). Where the same
processes settle orders, that goes on beside the answers: a few orders at a time between many requests.
"""

from msgspec import Struct

from holdfast.plan.capacity import PAYMENTS_PARALLEL

# Requests that are worked on at once; all others wait for their turn (http/shedding.py, ALWAYS_SERVED).
REQUESTS_PARALLEL = 256


class Asked(Struct, frozen=True):
    """How many ask for something, and what it takes of a server process."""

    count: int
    seconds_each: float

    @property
    def work_s(self) -> float:
        return self.count * self.seconds_each


class Turn(Struct, frozen=True):
    """Which part of those who ask is answered in a step, and of the orders that wait settled."""

    answered: float
    settled: float


def turn(asked: list[Asked], orders: Asked, budget_s: float) -> Turn:
    work_s = sum(one.work_s for one in asked)
    if work_s + orders.work_s <= budget_s:
        return Turn(1.0, 1.0)
    at_once = min(1.0, REQUESTS_PARALLEL / max(sum(one.count for one in asked), 1)) * work_s
    settling = min(orders.count, PAYMENTS_PARALLEL) * orders.seconds_each
    for_orders_s = min(orders.work_s, budget_s * settling / (at_once + settling)) if settling else 0.0
    # What one side leaves is the other's.
    for_answers_s = min(work_s, budget_s - for_orders_s)
    for_orders_s = min(orders.work_s, budget_s - for_answers_s)
    return Turn(for_answers_s / work_s if work_s else 1.0, for_orders_s / orders.work_s if orders.work_s else 1.0)
