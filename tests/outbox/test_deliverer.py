"""Deliveries reach their receivers: signed, at least once, in order per reservation."""

import asyncio
import random
import threading
from collections import Counter

import pytest
from outbox_world import LIFE, OutboxWorld
from sqlalchemy import update
from standardwebhooks.webhooks import WebhookVerificationError

from holdfast.bootstrap.pruner import Pruner
from holdfast.lab.load.engines import free_port
from holdfast.ledger.chain.checkpoint import CheckpointKey, parse_checkpoints
from holdfast.ledger.chain.links import Head
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import drop_delivery, retry_delivery
from holdfast.ledger.events.webhooks import Webhook, change_webhook, new_secret, rotate_secret
from holdfast.ledger.tables.webhooks import deliveries
from holdfast.runtime.signing import SigningKey
from holdfast.webhooks import admin as desk
from holdfast.webhooks import deliverer as deliver
from receiver import Received, Receiver, Reply, receiving
from set_clock import SetClock


@pytest.fixture
async def world(database: Database, monkeypatch: pytest.MonkeyPatch) -> OutboxWorld:
    monkeypatch.setattr(deliver, "PASS_INTERVAL_S", 0.02)
    world = OutboxWorld(database)
    await world.stock()
    return world


def check_order(receiver: Receiver, lives: int, life: list[str] = LIFE) -> None:
    told = receiver.types_by_subject()
    assert len(told) == lives
    assert {tuple(types) for types in told.values()} == {tuple(life)}


async def test_an_event_arrives_signed_and_a_forged_one_is_known(world: OutboxWorld) -> None:
    with receiving() as receiver:
        webhook = await world.add(receiver.url, "reservation.created")
        [id_] = await world.live()
        await world.relay_all()
        async with world.delivering():
            [received] = await receiver.until_accepted(1)
    event = received.verified(webhook.secret)
    assert (event["type"], event["subject"]) == ("reservation.created", id_)
    assert received.headers["content-type"] == "application/cloudevents+json"
    tampered = Received(received.headers, received.body.replace(b'"quantity":1', b'"quantity":9'))
    renamed = Received(received.headers | {"webhook-id": "dlv_other"}, received.body)
    for forged, secret in ((received, new_secret()), (tampered, webhook.secret), (renamed, webhook.secret)):
        with pytest.raises(WebhookVerificationError):
            forged.verified(secret)


async def test_deliveries_carry_the_latest_checkpoint(world: OutboxWorld) -> None:
    key = CheckpointKey(SigningKey("k", "s" * 32))
    made = key.sign("incarnation", Head(3, 17, "ab" * 32), 1)
    with receiving() as receiver:
        await world.add(receiver.url, "reservation.created")
        await world.live()
        await world.relay_all()
        async with world.delivering(checkpoint=made):
            [received] = await receiver.until_accepted(1)
    sent = received.headers["holdfast-checkpoint"].encode()
    assert parse_checkpoints(sent, "header", key.public_key) == [made]


async def test_after_a_rotation_both_secrets_sign_for_a_while(world: OutboxWorld) -> None:
    with receiving() as receiver:
        webhook = await world.add(receiver.url, "reservation.created")
        now = await world.database.read(world.database.now_ms)
        rotated = await world.database.write(lambda c: rotate_secret(c, webhook.webhook_id, now))
        assert rotated is not None
        await world.live()
        await world.relay_all()
        async with world.delivering():
            [received] = await receiver.until_accepted(1)
    assert rotated.secret != webhook.secret
    assert [received.verified(s)["type"] for s in (rotated.secret, webhook.secret)] == ["reservation.created"] * 2
    assert rotated.secrets_at(now + 25 * 3_600_000) == [rotated.secret]


async def test_each_reservation_is_told_in_order_though_the_receiver_fails_at_random(
    world: OutboxWorld, seed: int
) -> None:
    chance, lock = random.Random(seed), threading.Lock()

    def fail_often(_received: Received) -> Reply:
        with lock:
            return Reply(chance.choice([200, 200, 500, 503, 302, 404]))

    with receiving(fail_often) as receiver:
        webhook = await world.add(receiver.url, "reservation.*")
        await world.live(15)
        await world.relay_all()
        async with world.delivering(delays_s=[0.01] * 60):
            await world.until_nothing_waits()
        check_order(receiver, 15)
        assert len(receiver.received) > len(receiver.accepted) == 45
        assert set(await world.states(webhook)) == {"done"}


async def test_deliverers_side_by_side_neither_break_the_order_nor_send_twice(world: OutboxWorld, seed: int) -> None:
    chance, lock = random.Random(seed), threading.Lock()

    def fail_sometimes(_received: Received) -> Reply:
        with lock:
            return Reply(chance.choice([200, 200, 200, 500]))

    with receiving(fail_sometimes) as receiver:
        await world.add(receiver.url, "reservation.*")
        relay = asyncio.create_task(world.relay.agent().run())
        async with world.delivering(delays_s=[0.01] * 60), world.delivering(delays_s=[0.01] * 60):
            for _ in range(4):
                await world.live(10)
            await receiver.until_accepted(120)
            await world.until_nothing_waits()
        relay.cancel()
        check_order(receiver, 40)
        assert set(Counter(r.id for r in receiver.accepted).values()) == {1}


async def test_a_receiver_that_was_down_gets_everything_when_it_is_back(world: OutboxWorld) -> None:
    port = free_port()
    webhook = await world.add(f"http://127.0.0.1:{port}/", "reservation.*")

    async def tried_twice() -> bool:
        return any(d.attempts > 1 for d in await world.log(webhook))

    await world.live(3)
    await world.relay_all()
    async with world.delivering():
        await world.until(tried_twice)
        with receiving(port=port) as receiver:
            await world.until_nothing_waits()
            check_order(receiver, 3)
    [first, *_] = (await world.log(webhook))[0].history
    assert (first.status, first.error) == (None, "unreachable")


async def test_a_dead_receiver_keeps_no_other_waiting(world: OutboxWorld) -> None:
    release = threading.Event()

    def hang(_received: Received) -> Reply:
        release.wait(120)
        return Reply()

    with receiving(hang) as dead, receiving() as quick:
        await world.add(dead.url, "reservation.*")
        await world.add(quick.url, "reservation.*")
        await world.live(30)
        await world.relay_all()
        async with world.delivering(parallel=4):
            await quick.until_accepted(90)
            assert (len(dead.received), len(dead.accepted)) == (4, 0)
        release.set()
        check_order(quick, 30)


async def test_a_receiver_that_is_too_slow_is_tried_again_under_the_same_id(world: OutboxWorld) -> None:
    slow = threading.Event()

    def slow_once(_received: Received) -> Reply:
        if not slow.is_set():
            slow.set()
            release.wait(60)
        return Reply()

    release = threading.Event()
    with receiving(slow_once) as receiver:
        webhook = await world.add(receiver.url, "reservation.created")
        await world.live()
        await world.relay_all()
        async with world.delivering(timeout_s=1.5):
            await receiver.until(lambda: len(receiver.received) == 2)
            await world.until_nothing_waits()
        release.set()
    assert len({received.id for received in receiver.received}) == 1
    [delivery] = await world.log(webhook)
    assert [(a.status, a.error) for a in delivery.history] == [(None, "timeout"), (200, None)]


async def test_what_fails_again_and_again_is_parked_and_those_behind_it_go_on(world: OutboxWorld) -> None:
    def refuse_the_first(received: Received) -> Reply:
        return Reply(500 if received.event["type"] == "reservation.created" and broken else 200)

    broken = True
    with receiving(refuse_the_first) as receiver:
        webhook = await world.add(receiver.url, "reservation.*")
        await world.live()
        await world.relay_all()
        async with world.delivering(delays_s=[0.01, 0.01]) as deliverer:
            await world.until_nothing_waits()
            parked, *others = await world.log(webhook)
            assert (parked.state, parked.reason, parked.attempts) == ("parked", "http_500", 3)
            assert [a.status for a in parked.history] == [500, 500, 500]
            assert [d.state for d in others] == ["done", "done"]

            broken = False
            now = await world.database.read(world.database.now_ms)
            assert await world.database.write(lambda c: retry_delivery(c, parked.delivery_id, now))
            deliverer.wake()
            await world.until_nothing_waits()
    assert await world.states(webhook) == ["done"] * 3
    assert {r.id for r in receiver.received[:3]} == {receiver.received[-1].id}


async def test_a_parked_delivery_can_be_dropped_and_only_a_parked_one(world: OutboxWorld) -> None:
    with receiving(lambda _: Reply(400)) as receiver:
        webhook = await world.add(receiver.url, "reservation.created")
        await world.live()
        await world.relay_all()
        [waiting] = await world.log(webhook)
        assert not await world.database.write(lambda c: drop_delivery(c, waiting.delivery_id, 1))
        async with world.delivering(delays_s=[]):
            await world.until_nothing_waits()
    assert await world.database.write(lambda c: drop_delivery(c, waiting.delivery_id, 1))
    assert await world.states(webhook) == ["dropped"]
    assert not await world.database.write(lambda c: retry_delivery(c, "dlv_nobody", 1))


async def test_a_receiver_that_is_gone_disables_its_webhook_and_loses_nothing(world: OutboxWorld) -> None:
    gone = True
    with receiving(lambda _: Reply(410 if gone else 200)) as receiver:
        webhook = await world.add(receiver.url, "reservation.*")

        async def is_disabled() -> bool:
            return (await world.found(webhook)).disabled_at is not None

        await world.live()
        await world.relay_all()
        async with world.delivering() as deliverer:
            await receiver.until(lambda: len(receiver.received) == 1)
            await world.until(is_disabled)
            await deliverer.pass_once()
            assert len(receiver.received) == 1
            gone = False
            await world.database.write(lambda c: change_webhook(c, webhook.webhook_id, {"disabled_at": None}))
            deliverer.wake()
            await world.until_nothing_waits()
        check_order(receiver, 1)


async def test_a_receiver_may_ask_for_time(world: OutboxWorld) -> None:
    with receiving(lambda _: Reply(429, (("Retry-After", "900"),))) as receiver:
        webhook = await world.add(receiver.url, "reservation.created")

        async def tried() -> bool:
            return (await world.log(webhook))[0].attempts > 0

        await world.live()
        await world.relay_all()
        async with world.delivering():
            await world.until(tried)
    [delivery] = await world.log(webhook)
    assert 890_000 < delivery.due_at - delivery.history[0].at < 910_000


async def test_redirects_are_not_followed_and_long_answers_not_read(world: OutboxWorld) -> None:
    with receiving() as elsewhere:
        answers = iter([Reply(307, (("Location", elsewhere.url),)), Reply(200, body=b"x" * 5_000_000)])
        with receiving(lambda _: next(answers)) as receiver:
            webhook = await world.add(receiver.url, "reservation.created")
            await world.live()
            await world.relay_all()
            async with world.delivering():
                await world.until_nothing_waits()
        assert elsewhere.received == []
    assert [a.status for a in (await world.log(webhook))[0].history] == [307, 200]


async def test_an_attempt_that_came_back_after_its_lease_writes_nothing(world: OutboxWorld) -> None:
    """It was leased by another meanwhile, which counts up the fence."""
    hold, held = threading.Event(), threading.Event()

    def stall(_received: Received) -> Reply:
        held.set()
        hold.wait(60)
        return Reply()

    with receiving(stall) as receiver:
        webhook = await world.add(receiver.url, "reservation.created")
        await world.live()
        await world.relay_all()
        async with world.delivering() as deliverer:

            async def written_down() -> bool:
                return not deliverer._tasks and not deliverer._answers

            await asyncio.to_thread(held.wait, 60)
            await world.database.write(lambda c: c.execute(update(deliveries).values(fence=deliveries.c.fence + 1)))
            hold.set()
            await receiver.until_accepted(1)
            await world.until(written_down)
            assert await world.states(webhook) == ["waiting"]


# --- again


async def test_a_replay_sends_the_same_ids_in_the_same_order(
    world: OutboxWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "PORTION", 2)
    with receiving() as receiver:
        webhook = await world.add(receiver.url, "reservation.*")
        before = await world.database.read(world.database.now_ms)
        await world.live(2)
        await world.relay_all()
        async with world.delivering() as deliverer:
            await world.until_nothing_waits()
            first = list(receiver.accepted)
            receiver.accepted.clear()
            assert await desk.replay(world.database, webhook.webhook_id, before + 3_600_000) == 0
            assert await desk.replay(world.database, webhook.webhook_id, before) == 6
            deliverer.wake()
            await world.until_nothing_waits()
    assert sorted(r.id for r in first) == sorted(r.id for r in receiver.accepted)
    check_order(receiver, 2)


async def test_a_test_is_sent_whatever_the_webhook_wants(world: OutboxWorld) -> None:
    with receiving() as receiver:
        webhook = await world.add(receiver.url, "order.*")
        sent = await world.database.write(lambda c: desk.send_test(world.database, c, webhook.webhook_id))
        async with world.delivering():
            [received] = await receiver.until_accepted(1)
    assert received.id == sent
    assert received.verified(webhook.secret)["type"] == "webhook.test"


async def test_a_removed_webhook_takes_its_deliveries_along(
    world: OutboxWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "PORTION", 2)
    webhook, other = await world.add("http://127.0.0.1:9/"), await world.add("http://127.0.0.1:9/")
    await world.live()
    await world.relay_all()
    assert await desk.remove(world.database, webhook.webhook_id)
    assert not await desk.remove(world.database, webhook.webhook_id)
    assert (len(await world.log(webhook)), len(await world.log(other))) == (0, 3)


async def test_deliveries_are_forgotten_a_week_after_they_were_done(world: OutboxWorld) -> None:
    with receiving(lambda r: Reply(200 if r.event["type"] != "reservation.created" else 400)) as receiver:
        webhook = await world.add(receiver.url, "reservation.*")
        await world.live()
        await world.relay_all()
        async with world.delivering(delays_s=[]):
            await world.until_nothing_waits()
    clock = SetClock(world.database)
    clock.now = await world.database.read(world.database.now_ms) + 6 * 24 * 3_600_000
    assert await Pruner(clock).pass_once() == 0
    clock.advance(2 * 24 * 3_600_000)
    assert await Pruner(clock).pass_once() == 2
    assert await world.states(webhook) == ["parked"]


def test_a_webhook_does_not_show_its_secrets() -> None:
    secret = new_secret()
    assert secret not in repr(Webhook("wh_1", "http://x", ("*",), secret, None, 0, 0, previous_secret=secret))
