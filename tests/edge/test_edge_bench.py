"""`holdfast bench edge` measures the real thing: figures, ratios, and what reached the server."""

import pytest
from http_serving import Server

pytest_plugins = ("http_fixtures",)


@pytest.mark.slow
def test_the_edge_is_measured_beside_a_plain_nginx_in_one_run(embedded: Server) -> None:
    found = embedded.command("bench", "edge", "--seconds", "1", "--connections", "32")
    figures = {"now", "plain_cache", "plain", "refused", "plain_refusal", "sold_out"}
    assert found["figures"].keys() == figures
    assert min(found["figures"].values()) > 0
    assert {"cache", "plain", "refused_of_plain"} <= found["ratios"].keys()
    # A crowd at the edge is a handful of requests at the server, however fast the machine is.
    assert found["sent"].keys() == {"now", "refused", "sold_out"}
    assert max(found["reached_origin"].values()) <= 10
