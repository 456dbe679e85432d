"""A list that is longer than one portion, put together from all of them; and what a crowd that reads it may take."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert

from asking_inside import ask_inside
from holdfast.bootstrap.services import Services, open_services
from holdfast.domain.room.lottery import digest_of, entry_of
from holdfast.domain.room.room import Join
from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale
from holdfast.http.endpoints import lottery
from holdfast.http.protection import large_answers
from holdfast.ledger.room.rooms import update_room
from holdfast.ledger.tables.room import places
from holdfast.runtime.token_bucket import Policy
from holdfast.settings import load_settings

PEOPLE = 25
SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=1, currency="EUR", starts_at=4_000_000_000_000,
    checkout=Checkout.CART, payment=PaymentKind.EXTERNAL, room=Room(RoomMode.LOTTERY),
)  # fmt: skip


async def close(holdfast: Services, digest: str, entrants: int = PEOPLE) -> None:
    closed = {"opened_at": 1, "entrants": entrants, "digest": digest}
    await holdfast.database.write(lambda c: update_room(c, "drop", 1, closed))


async def test_portions_follow_one_another_and_make_the_whole_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lottery, "PORTION", 10)
    async with open_services(load_settings(data=tmp_path), background=False) as holdfast:
        await holdfast.sale_operations.create(SALE)
        for number in range(PEOPLE + 3):
            await holdfast.join_queue.submit("drop", Join(f"b{number}", f"t{number}"))
        entries = [entry_of("drop", f"b{number}", f"t{number}") for number in range(PEOPLE)]
        await close(holdfast, digest_of(entries))
        read, links = "", []
        for first in (0, 10, 20):
            answer = await ask_inside(holdfast, "GET", "/v1/sales/drop/lottery/entries", query=f"from={first}")
            read += answer.body.decode()
            links.append(dict(answer.headers).get("link"))
        path = "/v1/sales/drop/lottery/entries"
        assert links == [f'<{path}?from=10>; rel="next"', f'<{path}?from=20>; rel="next"', None]
        assert read.split() == entries


def fill(connection: Connection, entrants: int) -> None:
    rows = [
        {"sale_id": "drop", "arrival": n, "buyer_id": f"b{n}", "ticket_id": f"t{n}", "joined_at": 1}
        for n in range(entrants)
    ]
    connection.execute(insert(places), rows)


async def test_a_crowd_that_reads_the_list_gets_only_so_much_of_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two portions, and no more comes back while the clock stands still."""
    path, entrants, asked = "/v1/sales/drop/lottery/entries", 2_000, 5
    monkeypatch.setattr(lottery, "PORTION", entrants)
    monkeypatch.setattr(lottery, "large_answers", large_answers.LargeAnswers())
    monkeypatch.setattr(large_answers, "BUDGET", Policy("large answers", burst=300, every_ms=1))
    monkeypatch.setattr(large_answers, "monotonic", lambda: 1.0)
    async with open_services(load_settings(data=tmp_path), background=False) as holdfast:
        await holdfast.sale_operations.create(SALE)
        await holdfast.database.write(lambda c: fill(c, entrants))
        await close(holdfast, "d" * 64, entrants)
        answers = [await ask_inside(holdfast, "GET", path) for _ in range(asked)]
        assert [answer.status for answer in answers] == [200, 200, 503, 503, 503]
        assert len(answers[0].body) == entrants * lottery.ENTRY_BYTES > large_answers.LARGE_BYTES
        assert json.loads(answers[-1].body)["reason"] == "busy"
        assert "retry-after" in dict(answers[-1].headers)
        known = [("if-none-match", dict(answers[0].headers)["etag"])]
        assert (await ask_inside(holdfast, "GET", path, headers=known)).status == 304
