"""The challenge over HTTP: public, never cached, and what its solution is worth at the door."""

import altcha
import httpx
import pytest
from http_calling import problem_of
from http_sales import body_of, store_of
from http_serving import Server, on_one_engine
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)


def ask(server: Server, path: str, token: str | None = None) -> httpx.Response:
    with server.connect(token) as client:
        return client.get(path)


@on_one_engine
def test_a_challenge_is_public_and_never_cached_and_each_is_new(server: Server) -> None:
    store = store_of(server)
    store.open(proof_of_work={"cost": 20})
    first, second = (ask(server, f"{store.path}/challenge") for _ in range(2))
    assert first.headers["cache-control"] == "no-store"
    assert body_of(first)["signature"] != body_of(second)["signature"]
    assert body_of(first)["parameters"]["data"] == {"sale": store.sale_id, "buyer": ""}


def test_a_clients_library_solves_it(embedded: Server) -> None:
    store = store_of(embedded)
    store.open(proof_of_work={"cost": 20})
    challenge = altcha.Challenge.from_dict(body_of(ask(embedded, f"{store.path}/challenge", buyer_token("ada"))))
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    assert 5 <= solution.counter < 20
    assert challenge.parameters.data is not None
    assert challenge.parameters.data["buyer"]


def test_a_sale_without_proof_of_work_has_no_challenge(embedded: Server) -> None:
    store = store_of(embedded)
    store.open()
    assert ask(embedded, f"{store.path}/challenge").status_code == 204


@pytest.mark.parametrize("sale_id", ["nowhere", "%2e", "a" * 300])
def test_an_unknown_sale_is_a_404(embedded: Server, sale_id: str) -> None:
    problem_of(ask(embedded, f"/v1/sales/{sale_id}/challenge"), 404, "sale_not_found")


def test_a_bad_token_is_told_so(embedded: Server) -> None:
    store = store_of(embedded)
    store.open(proof_of_work={"cost": 20})
    problem_of(ask(embedded, f"{store.path}/challenge", "nonsense"), 401, "unauthorized")
