"""A sale may limit how often a buyer tries to buy: exactly, on every engine, across retries and races."""

from concurrent.futures import ThreadPoolExecutor

import httpx
from http_calling import problem_of
from http_sales import Buyer, Store, body_of

pytest_plugins = ("http_fixtures",)


def test_a_buyer_who_tried_often_enough_is_refused_and_the_others_are_not(store: Store) -> None:
    store.open(total_units=5, per_buyer_limit=1, purchase_attempts_max=2)
    with store.buyer("ada") as ada, store.buyer("bob") as bob:
        bought = body_of(ada.purchase(key="one"), 201)
        # Refused attempts count as well, and retries do not.
        problem_of(ada.purchase(key="two"), 409, "buyer_limit")
        problem_of(ada.purchase(key="two"), 409, "buyer_limit")
        problem_of(ada.purchase(key="three"), 409, "attempt_limit")
        assert body_of(ada.purchase(key="one"))["reservation_id"] == bought["reservation_id"]
        body_of(bob.purchase(key="one"), 201)
        body_of(store.change(purchase_attempts_max=3))
        problem_of(ada.purchase(key="three"), 409, "buyer_limit")
    assert store.counts() == (3, 2, 0)


def test_attempts_at_the_same_moment_are_counted_exactly(store: Store) -> None:
    store.open(total_units=50, per_buyer_limit=None, purchase_attempts_max=3)
    with store.buyer("eve") as eve, ThreadPoolExecutor(12) as crowd:
        answers = list(crowd.map(lambda n: _answer(eve, f"key-{n}"), range(12)))
    reasons = [answer.status_code for answer in answers]
    assert (reasons.count(201), reasons.count(409)) == (3, 9)
    assert store.counts() == (47, 3, 0)


def _answer(buyer: Buyer, key: str) -> httpx.Response:
    """Asked again under the same key while the server is busy."""
    while (answer := buyer.purchase(key=key)).status_code == 503:
        pass
    return answer
