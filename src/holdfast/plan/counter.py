"""Who is answered when more ask than server processes can answer.

All who have been answered before are served side by side: if there is time for a part of them, then for the same part
of those who pay, who buy, who fetch their pass and who look how their payment stands. Newcomers, who want to join or
are bots that try without, come after them (http/shedding.py refuses joins first, and a browser that has no connection
yet waits for one). Where the same processes settle orders, that goes on beside the answers, joins among them: a step of
each order that is under way, and an answer for each request, in turns.
"""

from msgspec import Struct

from holdfast.plan.capacity import PAYMENTS_PARALLEL

# Requests that are worked on at once; all others wait for their turn (http/shedding.py, ALWAYS_SERVED).
REQUESTS_PARALLEL = 256
# An order is settled step by step, and between two steps all those requests have their turn.
ORDER_TURNS = 12


class Asked(Struct, frozen=True):
    """How many ask for something, and what it takes of a server process."""

    count: int
    seconds_each: float

    @property
    def work_s(self) -> float:
        return self.count * self.seconds_each


class Turn(Struct, frozen=True):
    """Which part of those who ask is answered in a step, and of the orders that wait settled; and where there is not
    enough time for all, how long it takes until each who is worked on at once has had their turn."""

    answered: float
    settled: float
    round_s: float = 0.0


def turn(asked: list[Asked], newcomers: list[Asked], orders: Asked, budget_s: float) -> Turn:
    work_s, newcomers_s = sum(one.work_s for one in asked), sum(one.work_s for one in newcomers)
    if work_s + newcomers_s + orders.work_s <= budget_s:
        return Turn(1.0, 1.0)
    count = max(sum(one.count for one in (*asked, *newcomers)), 1)
    at_once = min(1.0, REQUESTS_PARALLEL / count) * (work_s + newcomers_s)
    settling = min(orders.count, PAYMENTS_PARALLEL) * orders.seconds_each / ORDER_TURNS
    for_orders_s = min(orders.work_s, budget_s * settling / (at_once + settling)) if settling else 0.0
    # What one side leaves is the other's.
    for_requests_s = min(work_s + newcomers_s, budget_s - for_orders_s)
    for_orders_s = min(orders.work_s, budget_s - for_requests_s)
    answered = min(work_s, for_requests_s) / work_s if work_s else 1.0
    return Turn(answered, for_orders_s / orders.work_s if orders.work_s else 1.0, at_once + settling)
