"""Browsers of a contact: who may add one, and what is refused."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from http_calling import problem_of
from http_sales import body_of
from http_serving import Server, started
from http_tokens import buyer_token

from holdfast.messages.push.encryption import from_base64url, public_bytes, to_base64url

pytest_plugins = ("http_fixtures",)

POINT = to_base64url(public_bytes(generate_private_key(SECP256R1())))


def subscription(
    endpoint: str = "https://push.example/one", key: str = POINT, auth: str = "A" * 22
) -> dict[str, object]:
    """As `PushSubscription.toJSON()` gives it."""
    return {"endpoint": endpoint, "expirationTime": None, "keys": {"p256dh": key, "auth": auth}}


def test_without_the_setting_no_browser_can_be_added(embedded: Server) -> None:
    with embedded.connect(buyer_token("ada")) as client:
        problem_of(client.put("/v1/me/contact", json={"push": subscription()}), 409, "messages_off")


def test_a_browser_is_added_to_a_contact_and_ends_with_it(tmp_path: Path) -> None:
    with started(tmp_path, settings={"PUSH_CONTACT": "mailto:ops@shop.example"}) as server:
        [key] = server.directory.rglob("push_key")
        assert key.stat().st_mode & 0o777 == 0o600
        with server.connect() as anyone:
            offered = anyone.get("/store/config.json").json()["messages"]
        assert offered["mail"] is False
        assert len(from_base64url(offered["push"])) == 65
        with server.connect(buyer_token("ada")) as client:
            assert body_of(client.put("/v1/me/contact", json={"push": subscription()}))["devices"] == 1
            again = body_of(client.put("/v1/me/contact", json={"push": subscription(), "next_sale": True}))
            assert (again["devices"], again["email"], again["next_sale"]) == (1, None, True)
            for wrong, field in (
                (subscription("http://push.example/one"), "push.endpoint"),
                (subscription("https://127.0.0.1/one"), "push.endpoint"),
                (subscription("https://169.254.169.254/one"), "push.endpoint"),
                (subscription("https://user:password@push.example/one"), "push.endpoint"),
                (subscription(key="A" * 87), "push.keys"),
                (subscription(auth="A" * 21), "push.keys"),
                (subscription(auth="A" * 40), "push.keys.auth"),
            ):
                refused = client.put("/v1/me/contact", json={"push": wrong})
                [error] = problem_of(refused, 422, "invalid_request")["errors"]
                assert error["field"] == field
                # The setting is for webhooks, and buyers have none.
                assert "HOLDFAST_" not in refused.text
            problem_of(client.put("/v1/me/contact", json={"next_sale": True}), 409, "messages_off")
            assert body_of(client.get("/v1/me/contact"))["devices"] == 1
            assert client.delete("/v1/me/contact").status_code == 204
            problem_of(client.get("/v1/me/contact"), 404, "contact_not_found")


@pytest.mark.slow
def test_a_contact_needs_an_address_or_a_browser(tmp_path: Path) -> None:
    settings = {"SMTP_URL": "smtp://127.0.0.1:1"}
    with started(tmp_path, settings=settings) as server, server.connect(buyer_token("ada")) as client:
        problem_of(client.put("/v1/me/contact", json={"next_sale": True}), 422, "invalid_request")
        body_of(client.put("/v1/me/contact", json={"email": "ada@example.com"}))
        kept = body_of(client.put("/v1/me/contact", json={"next_sale": True}))
        assert (kept["email"], kept["next_sale"]) == ("ada@example.com", True)
