"""Webhooks over HTTP, and what a server does for them, on each engine."""

from collections.abc import Iterator
from typing import Any

import pytest
from http_calling import body_of, eventually, problem_of, wrong_fields
from http_metrics import Samples, scrape
from http_serving import Server, database_setting, started

from conftest import ENGINES
from receiver import Receiver, Reply, receiving

pytest_plugins = ("http_fixtures",)

PATH = "/v1/webhooks"
LIFE = ["reservation.created", "reservation.extended", "reservation.confirmed"]


@pytest.fixture(scope="module", params=[*ENGINES, "redis"])
def holdfast(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may call receivers on this machine."""
    setting = database_setting(request.param, request) | {"WEBHOOK_PRIVATE": "1", "LOG_LEVEL": "debug"}
    with started(tmp_path_factory.mktemp(f"hooks-{request.param}"), settings=setting) as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def add(server: Server, url: str, *patterns: str, **more: object) -> dict[str, Any]:
    answer = server.client.post(PATH, json={"url": url, "events": list(patterns) or ["*"]} | more)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def remove(server: Server, made: dict[str, Any]) -> None:
    assert server.client.delete(f"{PATH}/{made['webhook_id']}").status_code == 204


def log_of(server: Server, made: dict[str, Any], **query: str | int) -> dict[str, Any]:
    return body_of(server.client.get(f"{PATH}/{made['webhook_id']}/deliveries", params=query))


def live(server: Server) -> tuple[str, str]:
    """A pool, and a reservation from its beginning to its end."""
    shop = server.shop()
    shop.provision(5)
    reservation_id = shop.hold()
    body_of(shop.extend(reservation_id, 600))
    body_of(shop.confirm(reservation_id))
    return shop.sku_id, reservation_id


def test_what_happens_to_a_reservation_arrives_signed_and_in_order(holdfast: Server, receiver: Receiver) -> None:
    made = add(holdfast, receiver.url, "reservation.*")
    sku_id, reservation_id = live(holdfast)
    receiver.wait(lambda: len(receiver.accepted) >= 3)
    told = [received.verified(made["secret"]) for received in receiver.accepted]
    assert [event["type"] for event in told] == LIFE
    assert {event["subject"] for event in told} == {reservation_id}
    assert {event["data"]["sku_id"] for event in told} == {sku_id}
    remove(holdfast, made)


def test_the_log_tells_of_each_delivery_and_page_by_page(holdfast: Server, receiver: Receiver) -> None:
    made = add(holdfast, receiver.url, "reservation.*")
    live(holdfast)
    log = eventually(lambda: _all_done(log_of(holdfast, made), 3))
    assert [d["type"] for d in log["data"]] == LIFE[::-1]
    [latest, *_] = log["data"]
    assert (latest["attempts"], latest["last_status"], latest["reason"]) == (1, 200, None)
    assert latest["history"][0].keys() == {"at", "ms", "status", "error"}
    assert latest["event"]["type"] == "reservation.confirmed"
    first = log_of(holdfast, made, limit=2)
    rest = log_of(holdfast, made, limit=2, starting_after=first["data"][-1]["delivery_id"])
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert first["data"] + rest["data"] == log["data"]
    assert log_of(holdfast, made, state="parked")["data"] == []
    remove(holdfast, made)


def _all_done(log: dict[str, Any], count: int) -> dict[str, Any]:
    """The log, or nothing as long as something waits."""
    return log if [d["state"] for d in log["data"]] == ["done"] * count else {}


def test_a_webhook_is_shown_changed_and_removed_and_its_secret_shown_once(holdfast: Server, receiver: Receiver) -> None:
    made = add(holdfast, receiver.url, "order.*", description="fulfilment")
    secret, address = made.pop("secret"), f"{PATH}/{made['webhook_id']}"
    assert secret.startswith("whsec_")
    assert body_of(holdfast.client.get(address)) == made
    assert made in body_of(holdfast.client.get(PATH))["data"]
    assert secret not in holdfast.client.get(PATH).text

    changed = body_of(holdfast.client.patch(address, json={"events": ["*"], "enabled": False}))
    assert (changed["events"], changed["enabled"], changed["url"]) == (["*"], False, made["url"])
    assert body_of(holdfast.client.patch(address, json={"enabled": True}))["disabled_at"] is None
    rotated = body_of(holdfast.client.post(f"{address}/rotate-secret"))
    assert rotated["secret"] != secret
    assert holdfast.client.delete(address).status_code == 204
    for answer in (
        holdfast.client.get(address),
        holdfast.client.delete(address),
        holdfast.client.patch(address, json={}),
    ):
        problem_of(answer, 404, "webhook_not_found")
    for text in (secret, rotated["secret"]):
        assert text.removeprefix("whsec_") not in holdfast.log


def test_what_was_sent_is_sent_again_on_demand_under_the_same_id(holdfast: Server, receiver: Receiver) -> None:
    made = add(holdfast, receiver.url, "reservation.*")
    address = f"{PATH}/{made['webhook_id']}"
    live(holdfast)
    log = eventually(lambda: _all_done(log_of(holdfast, made), 3))
    one = log["data"][-1]["delivery_id"]
    assert body_of(holdfast.client.post(f"{address}/replay", json={"delivery_id": one})) == {"replayed": 1}
    receiver.wait(lambda: len(receiver.accepted) >= 4)
    assert receiver.accepted[3].id == receiver.accepted[0].id == one
    eventually(lambda: _all_done(log_of(holdfast, made), 3))
    since = {"since": made["created_at"]}
    assert body_of(holdfast.client.post(f"{address}/replay", json=since)) == {"replayed": 3}
    receiver.wait(lambda: len(receiver.accepted) >= 7)
    assert [r.id for r in receiver.accepted[4:]] == [r.id for r in receiver.accepted[:3]]
    problem_of(holdfast.client.post(f"{address}/replay", json={"delivery_id": "dlv_x"}), 404, "delivery_not_found")
    for body in ({}, {"since": "yesterday"}, {"since": "2027-01-31T12:00:00"}, since | {"delivery_id": one}):
        assert wrong_fields(holdfast.client.post(f"{address}/replay", json=body))
    remove(holdfast, made)


def test_a_test_is_sent_on_demand(holdfast: Server, receiver: Receiver) -> None:
    made = add(holdfast, receiver.url, "sale.opened")
    sent = body_of(holdfast.client.post(f"{PATH}/{made['webhook_id']}/test"))
    receiver.wait(lambda: len(receiver.accepted) >= 1)
    assert receiver.accepted[0].id == sent["delivery_id"]
    assert receiver.accepted[0].verified(made["secret"])["type"] == "webhook.test"
    remove(holdfast, made)


def test_what_waits_shows_in_the_metrics(holdfast: Server) -> None:
    with receiving(lambda _: Reply(500)) as broken:
        made = add(holdfast, broken.url, "reservation.*")
        live(holdfast)
        broken.wait(lambda: len(broken.received) >= 1)
        webhook_id = made["webhook_id"]
        # Where Redis is the gate, the events come one after the other.
        samples = eventually(lambda: _after_failure(holdfast, webhook_id, waiting=3))
        assert samples["holdfast_webhook_oldest_seconds"][webhook_id] > 0
        remove(holdfast, made)


def _after_failure(server: Server, webhook_id: str, *, waiting: int) -> Samples:
    samples = scrape(server)
    has_failed = samples.get("holdfast_webhook_attempts_total", {}).get(f"waiting,{webhook_id}")
    return samples if has_failed and samples["holdfast_webhook_backlog"].get(webhook_id) == waiting else {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://user:pass@shop.example/"}, "url"),
        ({"url": "ftp://shop.example/"}, "url"),
        ({"url": ""}, "url"),
        ({"events": []}, "events"),
        ({"events": ["order.paid"]}, "events.0"),
        ({"events": "*"}, "events"),
        ({"secret": "mine"}, "secret"),
    ],
)
def test_what_cannot_be_called_or_told_is_refused(embedded: Server, change: dict[str, object], field: str) -> None:
    answer = embedded.client.post(PATH, json={"url": "https://shop.example/", "events": ["*"]} | change)
    assert list(wrong_fields(answer)) == [field]


def test_only_operators_see_and_change_webhooks(embedded: Server) -> None:
    key = embedded.command("keys", "create", "--name", "till", "--scope", "inventory", "--scope", "sales")["key"]
    with embedded.connect(key) as other, embedded.connect() as stranger:
        for client, status in ((other, 403), (stranger, 401)):
            problem_of(client.get(PATH), status)
            problem_of(client.post(PATH, json={"url": "https://shop.example/", "events": ["*"]}), status)
            problem_of(client.delete(f"{PATH}/wh_x"), status)


@pytest.mark.parametrize("server", ENGINES, indirect=True)
def test_unless_it_is_allowed_a_private_receiver_is_never_called(server: Server) -> None:
    with receiving() as receiver:
        wrong = wrong_fields(server.client.post(PATH, json={"url": receiver.url, "events": ["*"]}))
        assert "HOLDFAST_WEBHOOK_PRIVATE" in wrong["url"]
        made = add(server, receiver.url.replace("127.0.0.1", "localhost"), "reservation.created")
        live(server)
        failed = eventually(lambda: [d for d in log_of(server, made)["data"] if d["attempts"]])
        assert failed[0]["reason"] == "address_refused"
        assert receiver.received == []


@pytest.mark.parametrize("holdfast", ["sqlite"], indirect=True)
def test_the_command_line_does_the_same(holdfast: Server) -> None:
    with receiving() as receiver:
        made = holdfast.command("webhooks", "add", receiver.url, "--event", "reservation.*", "--description", "cli")
        live(holdfast)
        receiver.wait(lambda: len(receiver.accepted) >= 3)
        assert [r.verified(made["secret"])["type"] for r in receiver.accepted] == LIFE
        listed = [w for w in holdfast.command("webhooks", "list")["data"] if w["webhook_id"] == made["webhook_id"]]
        assert listed == [{name: value for name, value in made.items() if name != "secret"}]
        eventually(lambda: _all_done(log_of(holdfast, made), 3))
        log = holdfast.command("webhooks", "deliveries", made["webhook_id"], "--state", "done")
        assert [d["type"] for d in log["data"]] == LIFE[::-1]
        again = holdfast.command("webhooks", "replay", made["webhook_id"], "--since", made["created_at"])
        assert again == {"replayed": 3}
        receiver.wait(lambda: len(receiver.accepted) >= 6)
        removed = holdfast.command("webhooks", "remove", made["webhook_id"])
        assert removed == {"webhook_id": made["webhook_id"], "removed": True}
