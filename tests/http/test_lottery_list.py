"""A list that is longer than one portion, put together from all of them."""

from pathlib import Path

import pytest

from asking_inside import ask_inside
from holdfast.bootstrap.services import Services, open_services
from holdfast.domain.room.lottery import digest_of, entry_of
from holdfast.domain.room.room import Join
from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale
from holdfast.http.endpoints import lottery
from holdfast.ledger.room.rooms import update_room
from holdfast.settings import load_settings

PEOPLE = 25
SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=1, currency="EUR", starts_at=4_000_000_000_000,
    checkout=Checkout.CART, payment=PaymentKind.EXTERNAL, room=Room(RoomMode.LOTTERY),
)  # fmt: skip


async def close(holdfast: Services, digest: str) -> None:
    closed = {"opened_at": 1, "entrants": PEOPLE, "digest": digest}
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
