"""What a client does when there is no answer, or a refusal: it sends again only what is safe to send again."""

import random
import time

import httpx
import pytest
from scripted_server import BUSY, GRANTED, LOST, RESERVATION, UNKNOWN, Scripted, problem, scripted

from holdfast.client import AsyncClient, Client, NoAnswer, Problem, UnexpectedAnswer, Unreachable, problems, transport
from holdfast.client.calls.inventory import reserve as reserve_call
from holdfast.client.calls.operate import create_key as create_key_call
from holdfast.client.calls.reservations import get_reservation as get_reservation_call
from holdfast.client.conversation import OptionChanges, Options, Send, pause_s
from holdfast.client.types import Reservation
from holdfast.lab.load.engines import free_port

NEW_KEY = {
    "key_id": "k", "name": "suite", "scopes": ["read"], "created_at": "2030-01-31T18:00:00.000Z", "revoked_at": None,
    "created_by": None, "key": "hf_2",
}  # fmt: skip
QUICK: OptionChanges = {"first_pause_s": 0.01}


def reserve(url: str, attempts: int = 5) -> Reservation:
    with Client(url, key="hf_1", attempts=attempts) as client:
        return client.with_options(**QUICK).reserve("sku", owner_id="ada", quantity=1)


@pytest.mark.parametrize("trouble", [LOST, BUSY, UNKNOWN, Scripted(502, "<html>"), Scripted(504, "")])
def test_a_reservation_is_sent_again_with_the_same_key(trouble: Scripted) -> None:
    with scripted(trouble, trouble, GRANTED) as server:
        assert reserve(server.url).reservation_id == "rsv_1"
        keys = {body["idempotency_key"] for _, _, body, _ in server.received if body}
    assert len(server.received) == 3
    assert len(keys) == 1
    assert next(iter(keys)).startswith("auto-")


async def test_the_async_client_sends_again_in_the_same_way() -> None:
    with scripted(LOST, BUSY, GRANTED) as server:
        async with AsyncClient(server.url, key="hf_1") as client:
            found = await client.with_options(**QUICK).reserve("sku", owner_id="ada", quantity=1, idempotency_key="k")
        assert found.status == "active"
        assert [body["idempotency_key"] for _, _, body, _ in server.received if body] == ["k"] * 3


def test_a_long_poll_has_the_time_it_waits_on_top_of_the_timeout() -> None:
    with httpx.Client(base_url="http://127.0.0.1") as http:
        long, plain, stream = (
            transport.request_of(http, Send(call, 10.0), is_stream=is_stream).extensions["timeout"]
            for call, is_stream in (
                (get_reservation_call("rsv_1", wait=20), False),
                (get_reservation_call("rsv_1"), False),
                (get_reservation_call("rsv_1"), True),
            )
        )
    assert (long["read"], long["connect"]) == (30.0, 10.0)
    assert plain["read"] == 10.0
    assert stream["read"] == 60.0


def test_a_long_poll_is_answered_after_the_plain_timeout() -> None:
    with scripted(Scripted(200, RESERVATION, after_s=0.4)) as server, Client(server.url, timeout_s=0.1) as client:
        assert client.with_options(attempts=1).get_reservation("rsv_1", wait=2).reservation_id == "rsv_1"


SETTLING, CONFIRMED = (Scripted(200, RESERVATION | {"status": status}) for status in ("settling", "confirmed"))
PATH = "/v1/reservations/rsv_1"


def test_waiting_lets_the_server_answer_when_something_changes() -> None:
    with scripted(GRANTED, SETTLING, LOST, CONFIRMED) as server, Client(server.url) as client:
        assert client.with_options(**QUICK).wait_for("rsv_1", timeout_s=15.9).status == "confirmed"
        asked = [path for _, path, _, _ in server.received]
    assert asked == [PATH, f"{PATH}?wait=15", f"{PATH}?wait=15", f"{PATH}?wait=15"]


async def test_the_async_client_waits_in_the_same_way_and_sees_a_declined_payment() -> None:
    with scripted(SETTLING, GRANTED) as server:
        async with AsyncClient(server.url) as client:
            assert (await client.wait_for("rsv_1")).status == "active"
        assert [path for _, path, _, _ in server.received] == [PATH, f"{PATH}?wait=20"]


def test_a_server_without_a_place_for_a_long_poll_is_not_asked_without_a_pause() -> None:
    begun = time.monotonic()
    with scripted(*[SETTLING] * 4, CONFIRMED) as server, Client(server.url) as client:
        client.wait_for("rsv_1")
    assert time.monotonic() - begun >= 0.1 + 0.15 + 0.225


@pytest.mark.parametrize("trouble", [LOST, UNKNOWN, Scripted(502, "")])
def test_what_may_not_be_done_twice_is_not_sent_again_if_it_may_have_been_done(trouble: Scripted) -> None:
    assert not create_key_call(name="suite", scopes=["read"]).is_repeatable
    with scripted(trouble) as server, Client(server.url) as client:
        with pytest.raises((NoAnswer, Problem)):
            client.with_options(**QUICK).create_key(name="suite", scopes=["read"])
        assert len(server.received) == 1


def test_what_may_not_be_done_twice_is_sent_again_if_the_server_says_nothing_was_changed() -> None:
    with scripted(BUSY, Scripted(201, NEW_KEY)) as server, Client(server.url) as client:
        assert client.with_options(**QUICK).create_key(name="suite", scopes=["read"]).key == "hf_2"


def test_a_lost_answer_names_the_key_that_finds_the_outcome() -> None:
    with scripted(LOST, LOST) as server, pytest.raises(NoAnswer) as lost:
        reserve(server.url, attempts=2)
    assert lost.value.idempotency_key == server.received[0][2]["idempotency_key"]  # type: ignore[index]


def test_a_refusal_that_time_does_not_change_is_raised_at_once() -> None:
    refusal = problem(409, "sold_out", retryable=False, available=0)
    with scripted(refusal) as server, pytest.raises(problems.SoldOut) as refused:
        reserve(server.url)
    assert (refused.value.reason, refused.value.status, refused.value.retryable) == ("sold_out", 409, False)
    assert refused.value.members == {"available": 0}


def test_a_reason_of_a_newer_server_is_raised_as_the_class_of_its_status() -> None:
    with scripted(problem(409, "eclipse", retryable=False)) as server, pytest.raises(Problem) as refused:
        reserve(server.url)
    assert type(refused.value).__name__ == "Conflict"


def test_fields_of_a_newer_server_are_ignored() -> None:
    with scripted(Scripted(200, RESERVATION | {"status": "levitating"})) as server:
        assert str(reserve(server.url).status) == "levitating"


@pytest.mark.parametrize("odd", [Scripted(200, "<html>"), Scripted(200, {"a": 1}), Scripted(500, "")])
def test_an_answer_that_is_not_of_holdfast_is_said_to_be_so(odd: Scripted) -> None:
    with scripted(odd) as server, pytest.raises(UnexpectedAnswer):
        reserve(server.url)


def test_a_server_that_is_not_there_is_tried_again_and_then_unreachable() -> None:
    begun = time.monotonic()
    with pytest.raises(Unreachable):
        reserve(f"http://127.0.0.1:{free_port()}", attempts=3)
    assert time.monotonic() - begun < 5


def test_pauses_are_jittered_and_never_shorter_than_the_server_asks_for() -> None:
    random.seed(1)
    refusal = Problem(503, {}, retry_after_s=2.0)
    pauses = [pause_s(attempt, refusal, Options()) for attempt in (1, 2, 3, 9) for _ in range(50)]
    assert min(pauses) >= 2.0
    assert max(pauses) <= 2.0 + Options().longest_pause_s
    assert len(set(pauses)) == len(pauses)


def test_a_call_describes_itself_and_sends_nothing() -> None:
    call = reserve_call("a/b", owner_id="ada", quantity=1, idempotency_key="k")
    assert call.path == "/v1/inventory/a%2Fb/reserve"
    assert call.content() == b'{"owner_id":"ada","quantity":1,"idempotency_key":"k"}'
