"""Where deliveries may go, and where not."""

import asyncio
import os
import socket
from threading import Event

import httpcore
import pytest
from outbox_world import OutboxWorld

from holdfast.ledger.engine.database import Database
from holdfast.runtime.outgoing.address import AddressRefused, GuardedBackend, check_url, is_reachable
from holdfast.webhooks.deliverer import Deliverer
from holdfast.webhooks.sender import Sender
from receiver import receiving

PUBLIC = ["93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "2002:5db8:d822::1"]
PRIVATE = [
    "127.0.0.1", "127.255.255.254", "::1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "fc00::1",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "2002:7f00:1::1",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "fe80::1", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "240.0.0.1",
    "255.255.255.255", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "192.88.99.1",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    # IPv4-compatible, translated, local NAT64, site-local.
    "::127.0.0.1", "::10.0.0.1", "::93.184.216.34", "::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1",
    "64:ff9b:1::7f00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:ffff::1", "fec0::1", "feff::1",
    # Teredo, ORCHID, documentation, discard, segment routing, ranges that nobody was given.
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1", "100::1", "5f00::1",
    "200::1", "4000::1", "8000::1", "e000::1",
]  # fmt: skip


@pytest.mark.parametrize("private", [False, True])
def test_addresses_are_judged_by_where_they_lead(private: bool) -> None:
    reachable = {a: is_reachable(a, private=private) for a in [*PUBLIC, *PRIVATE, *NEVER]}
    expected = dict.fromkeys(PUBLIC, True) | dict.fromkeys(PRIVATE, private) | dict.fromkeys(NEVER, False)
    assert reachable == expected


@pytest.mark.parametrize(
    "url",
    [
        "", "shop.example", "ftp://shop.example/", "file:///etc/passwd", "http://", "https:///x", "http://a b/",
        "http://user:secret@shop.example/", "http://user@shop.example/", "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/", "http://0.0.0.0/", "http://shop.example:99999/", "http://shop.example/\n", "http://[::1",
    ],
)  # fmt: skip
def test_what_is_no_address_to_post_to_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(must|is) "):
        check_url(url, private=True)


def test_an_address_is_kept_as_it_will_be_called() -> None:
    assert check_url("HTTPS://Bücher.example/a b?x=1#part", private=False) == "https://xn--bcher-kva.example/a%20b?x=1"
    assert check_url("http://127.0.0.1:9/", private=True) == "http://127.0.0.1:9/"
    with pytest.raises(ValueError, match="HOLDFAST_WEBHOOK_PRIVATE"):
        check_url("http://127.0.0.1:9/", private=False)


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001"])
async def test_a_name_is_judged_by_what_it_resolves_to_when_it_is_called(host: str) -> None:
    with receiving() as receiver:
        with pytest.raises(AddressRefused):
            await GuardedBackend(private=False).connect_tcp(host, receiver.port, timeout=2)
        stream = await GuardedBackend(private=True).connect_tcp(host, receiver.port, timeout=2)
        await stream.aclose()


async def test_a_name_that_nobody_knows_is_unreachable() -> None:
    with pytest.raises(httpcore.ConnectError):
        await GuardedBackend(private=True).connect_tcp("nobody.invalid", 80, timeout=2)


async def test_names_that_are_not_resolved_for_long_hold_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buyer's browser names its push service, and who has the name decides when to resolve it."""
    answers = Event()

    def keep_silent(*_: object, **__: object) -> None:
        answers.wait(60)
        raise OSError("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", keep_silent)
    backend, most = GuardedBackend(private=True), min(32, (os.cpu_count() or 1) + 4)
    waiting = [asyncio.create_task(backend.connect_tcp("slow.example", 443)) for _ in range(most)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        answers.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in results} == {httpcore.ConnectError}


async def test_a_private_receiver_is_not_called_unless_allowed(database: Database) -> None:
    world = OutboxWorld(database)
    await world.stock()
    with receiving() as receiver:
        webhook = await world.add(receiver.url.replace("127.0.0.1", "localhost"), "reservation.created")
        await world.live()
        await world.relay_all()
        sender = Sender(private=False)
        deliverer = Deliverer(database, sender, delays_s=[])

        async def is_parked() -> bool:
            await deliverer.pass_once()
            return await world.states(webhook) == ["parked"]

        await world.until(is_parked)
        await sender.close()
        assert receiver.received == []
    assert (await world.log(webhook))[0].reason == "address_refused"
