"""The funnel of a sale, from what its visitors did."""

from pathlib import Path

import pytest
from http_calling import eventually
from http_sales import Store, body_of, store_of
from http_serving import started

pytest_plugins = ("http_fixtures",)


def test_a_server_without_a_click_stream_says_so(quick: Store) -> None:
    quick.open()
    shown = body_of(quick.server.client.get(f"/v1/ops/sales/{quick.sale_id}/funnel"))
    assert shown == {"sale_id": quick.sale_id, "enabled": False, "steps": [], "refusals": []}
    assert quick.server.client.get("/v1/ops/sales/nowhere/funnel").status_code == 404


@pytest.mark.slow
def test_the_funnel_says_how_far_people_came_and_why_they_were_refused(tmp_path: Path) -> None:
    with started(tmp_path, settings={"clicks_to": str(tmp_path / "clicks")}) as server:
        store = store_of(server)
        store.open(total_units=1)
        with store.buyer("ada") as ada, store.buyer("bob") as bob, store.buyer("cy") as cy:
            for buyer in (ada, bob, cy):
                buyer.client.get(store.path)
            assert ada.purchase(1).status_code == 201
            assert bob.purchase(1).status_code == 409

        def people() -> list[int]:
            shown = body_of(server.client.get(f"/v1/ops/sales/{store.sale_id}/funnel"))
            refused.append(shown["refusals"])
            return [step["people"] for step in shown["steps"]]

        refused: list[list[dict[str, object]]] = []
        eventually(lambda: people() == [3, 2, 2, 2, 0])
        assert [(one["step"], one["reason"]) for one in refused[-1]] == [("attempt", "all_held")]
