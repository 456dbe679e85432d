"""Old reservations that came to nothing are deleted, and the ledger still adds up."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection, Executable, delete, func, insert, select, update

from holdfast.bootstrap.pruner import Pruner, retentions_of
from holdfast.domain.room.room import Admit, Join, Use
from holdfast.domain.sale.quote import QUOTE_TTL_MS, Quote, quoted_reservation_id
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Expire, Move, Provision, Reserve, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import begin_incarnation, read_mark, went_back
from holdfast.ledger.room.rooms import update_room
from holdfast.ledger.sales import pruning
from holdfast.ledger.sales.address_units import take_units
from holdfast.ledger.sales.pruning import HISTORY_PRUNED, SalePruner
from holdfast.ledger.sales.pruning import PRUNED as SALE_PRUNED
from holdfast.ledger.sales.quotes import insert_quote
from holdfast.ledger.sales.sale_lists import list_sales
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.stock.pruning import PRUNED, Pruned
from holdfast.ledger.tables.chain import pruned_events
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.sales import address_units, quotes
from holdfast.ledger.tables.stock import events, reservations
from holdfast.ledger.tables.webhooks import deliveries, webhooks
from holdfast.room.join_queue import JoinQueue
from holdfast.sales.operations import close_sale
from holdfast.testing.states import NOW, SKU
from holdfast.verify import replay
from holdfast.verify.prove import prove
from linked import link_all
from redis_setup import RedisSetup
from set_clock import SetClock

DAY = 24 * 3_600_000
KEEP_DAYS = 7
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=NOW,
    ends_at=None,
    checkout=Checkout.CART,
    payment=PaymentKind.WALLET,
    loaded_units=5,
)


def made_at(at: int, number: int, sku_id: str = SKU) -> str:
    return f"rsv_{at:012x}{number:020x}_{sku_id}"


async def trade(clock: SetClock, sku_id: str = SKU, gate: Gate | None = None) -> dict[str, str]:
    """One reservation of every ending, by its ending."""
    gate = gate or SqlGate(clock)
    ids = {
        name: made_at(clock.now, number, sku_id)
        for number, name in enumerate(("expired", "cancelled", "failed", "confirmed", "settling"))
    }
    reserves = [Reserve(id_, "ada", 2, 2, 60_000) for id_ in ids.values()]
    await gate.apply(sku_id, [Provision(100), *reserves])
    await gate.apply(
        sku_id,
        [
            Move(Transition.CANCEL, ids["cancelled"]),
            Move(Transition.CONFIRM, ids["confirmed"]),
            Move(Transition.SETTLE, ids["failed"]),
            Move(Transition.FAIL, ids["failed"]),
            Move(Transition.SETTLE, ids["settling"]),
        ],
    )
    clock.advance(61_000)
    await gate.apply(sku_id, [Expire(100)])
    return ids


async def prune(clock: SetClock) -> None:
    pruner = Pruner(clock, retentions_of(KEEP_DAYS))
    while await pruner.pass_once():
        pass


async def left(database: Database) -> set[str]:
    return set(await database.read(lambda c: c.execute(select(reservations.c.reservation_id)).scalars().all()))


async def pruned(database: Database) -> list[Pruned]:
    found = select(events.c.subject).where(events.c.type == PRUNED).order_by(events.c.seq)
    subjects = await database.read(lambda c: c.execute(found).scalars().all())
    return [one for one in map(Pruned.parse, subjects) if one is not None]


async def without_facts(database: Database, type_: str) -> int:
    without = select(events.c.seq).where(events.c.type == type_, events.c.facts.is_(None))
    return len(await database.read(lambda c: c.execute(without).all()))


async def refuted(database: Database) -> list[str]:
    return [finding.name for finding in await database.read(prove) if not finding.ok]


async def test_what_came_to_nothing_is_deleted_when_it_is_old_and_everything_still_adds_up(database: Database) -> None:
    clock = SetClock(database)
    first, other = await trade(clock), await trade(clock, "other")
    clock.advance(KEEP_DAYS * DAY + 1)
    second = await trade(clock)
    await prune(clock)
    kept = {ids[ending] for ids in (first, other) for ending in ("confirmed", "settling")}
    assert await left(database) == kept | set(second.values())
    stands_for = await pruned(database)
    assert [(each.count, each.taken, each.returned) for each in stands_for] == [(3, 6, 6)] * 2
    remaining = await database.read(lambda c: c.execute(select(events.c.reservation_id)).scalars().all())
    assert set(remaining) - {None} == await left(database)
    assert await without_facts(database, PRUNED) == 0
    assert await refuted(database) == []


async def test_each_digest_includes_the_one_before_it(database: Database) -> None:
    clock = SetClock(database)
    for _ in range(2):
        await trade(clock)
        clock.advance(KEEP_DAYS * DAY + 1)
        await prune(clock)
    one, two = await pruned(database)
    assert one.digest != two.digest
    assert await refuted(database) == []


async def test_what_is_young_or_kept_for_ever_stays(database: Database) -> None:
    clock = SetClock(database)
    ids = await trade(clock)
    clock.advance(KEEP_DAYS * DAY - 120_000)
    await prune(clock)
    await Pruner(clock, retentions_of(0)).pass_once()
    assert await left(database) == set(ids.values())


async def test_what_a_webhook_has_not_been_told_yet_stays(database: Database) -> None:
    clock = SetClock(database)
    ids = await trade(clock)
    values = {"webhook_id": "wh", "url": "u", "events": "[]", "secret": "s", "relayed_seq": 0, "created_at": NOW}
    await database.write(lambda c: c.execute(insert(webhooks).values(values)))
    clock.advance(KEEP_DAYS * DAY + 1)
    await prune(clock)
    assert await left(database) == set(ids.values())
    await database.write(lambda c: c.execute(update(webhooks).values(relayed_seq=10**12)))
    await prune(clock)
    assert await left(database) == {ids["confirmed"], ids["settling"]}


async def test_pruning_the_latest_events_does_not_look_as_if_the_ledger_went_back(
    database: Database,
) -> None:
    clock = SetClock(database)
    await trade(clock)
    await database.write(lambda c: begin_incarnation(c, 1, NOW))
    seen = await database.read(read_mark)
    assert seen is not None
    clock.advance(KEEP_DAYS * DAY + 1)
    await prune(clock)
    assert await database.read(lambda c: went_back(c, seen)) is None


async def test_what_redis_granted_is_deleted_too_and_gate_and_ledger_still_agree(redis_setup: RedisSetup) -> None:
    clock, gate = redis_setup.clock, redis_setup.open_gate()
    ids = await trade(clock, gate=gate)
    await redis_setup.drain(SKU)
    clock.advance(KEEP_DAYS * DAY + 1)
    await prune(clock)
    assert await left(redis_setup.database) == {ids["confirmed"], ids["settling"]}
    assert [each.count for each in await pruned(redis_setup.database)] == [3]
    assert await refuted(redis_setup.database) == []
    again = made_at(clock.now, 9)
    [verdict] = await gate.apply(SKU, [Reserve(again, "ada", 2, 2, 60_000)])
    assert verdict.outcome is Outcome.RESERVED
    reports = await redis_setup.reconciler.pass_once(thorough=True)
    assert {report.finding for report in reports.values()} == {None}
    await redis_setup.drain(SKU)
    assert await refuted(redis_setup.database) == []


async def stand_in_line(clock: SetClock) -> None:
    """Five joined, three were called, one bought; two units are noted for an address."""
    await clock.write(lambda c: insert_sale(c, SALE))
    room = JoinQueue(clock)
    for number in range(5):
        await room.submit(SALE.sale_id, Join(f"b{number}", f"t{number}"))
    await clock.write(lambda c: update_room(c, SALE.sale_id, NOW, {"opened_at": NOW, "serving": 3}))
    for number in range(3):
        await room.submit(SALE.sale_id, Admit(f"b{number}", number, f"t{number}", 60_000))
    await room.submit(SALE.sale_id, Use("b0", 1))
    attempts = [Reserve(made_at(NOW, number), "b0", 1, 1) for number in range(2)]
    await clock.write(lambda c: [take_units(c, SALE.sale_id, "::1", one, limit=9, now=NOW) for one in attempts])


async def counts_left(database: Database) -> tuple[int, int, int]:
    """Places, places that were deleted, and addresses."""

    def count(connection: Connection) -> tuple[int, int, int]:
        kept, noted = (
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (places, address_units)
        )
        return kept, connection.execute(select(rooms.c.pruned)).scalar_one(), noted

    return await database.read(count)


async def test_the_line_of_a_sale_is_deleted_once_it_was_closed_for_long_and_still_adds_up(database: Database) -> None:
    clock = SetClock(database)
    await stand_in_line(clock)
    pruner = SalePruner(KEEP_DAYS * DAY)

    async def pass_once() -> int:
        return await clock.write(lambda c: pruner.prune(c, clock.now - KEEP_DAYS * DAY, limit=2))

    clock.advance(KEEP_DAYS * DAY + 1)
    while await pass_once():
        pass
    assert await counts_left(database) == (5, 0, 2)
    found, _ = await database.read(lambda c: list_sales(c, limit=10, starting_after=None))
    await database.write(lambda c: [close_sale(c, sale, clock.now) for sale in found])
    clock.advance(KEEP_DAYS * DAY + 1)
    seen = []
    while await pass_once():
        seen.append((await counts_left(database))[:2])
        assert await refuted(database) == []
    assert [*dict.fromkeys(seen)] == [(5, 0), (3, 2), (1, 4), (0, 5)]
    assert await counts_left(database) == (0, 5, 0)
    assert await without_facts(database, SALE_PRUNED) == 0
    await database.write(lambda c: c.execute(update(rooms).values(passes_given=4)))
    assert await refuted(database) == ["pruned_places_add_up", "rows_as_recorded"]


async def test_with_an_archive_the_line_stays_and_only_addresses_go(database: Database) -> None:
    clock = SetClock(database)
    await stand_in_line(clock)
    found, _ = await database.read(lambda c: list_sales(c, limit=10, starting_after=None))
    await database.write(lambda c: [close_sale(c, sale, clock.now) for sale in found])
    clock.advance(KEEP_DAYS * DAY + 1)
    pruner = Pruner(clock, retentions_of(KEEP_DAYS, has_archive=True))
    while await pruner.pass_once():
        pass
    assert await counts_left(database) == (5, 0, 0)


async def close_and_prune(clock: SetClock) -> AsyncIterator[None]:
    """Gives control back after each portion."""
    found, _ = await clock.read(lambda c: list_sales(c, limit=10, starting_after=None))
    await clock.write(lambda c: [close_sale(c, sale, clock.now) for sale in found])
    clock.advance(KEEP_DAYS * DAY + 1)
    pruner = SalePruner(KEEP_DAYS * DAY)
    while await clock.write(lambda c: pruner.prune(c, clock.now - KEEP_DAYS * DAY, limit=9)):
        yield


class _Undo(Exception):
    pass


async def found_if(database: Database, tamper: Executable) -> set[str]:
    """The checks that fail after a change, which is undone again."""
    found: set[str] = set()

    def work(connection: Connection) -> None:
        connection.execute(tamper)
        found.update(finding.name for finding in prove(connection) if not finding.ok)
        raise _Undo

    with pytest.raises(_Undo):
        await database.write(work)
    return found


async def history_of_line(database: Database) -> str:
    """All that the events of the room say."""
    of_room = select(events.c.facts).where(events.c.type == "room.changed")
    return "".join(await database.read(lambda c: c.execute(of_room).scalars().all()))


async def test_no_event_names_who_stood_in_a_deleted_line_and_what_remains_is_still_proven(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "LOOKED_AT", 7)
    monkeypatch.setattr(pruning, "DELETED_MAX", 3)
    clock = SetClock(database)
    await stand_in_line(clock)
    await link_all(database)
    assert "b4" in await history_of_line(database)
    async for _ in close_and_prune(clock):
        assert await refuted(database) == []
    assert await history_of_line(database) == ""
    assert await database.read(replay.count_parts) == 1
    everything = await database.read(lambda c: str(c.execute(select(events)).all()))
    assert [number for number in range(5) if f'"b{number}"' in everything or f'"t{number}"' in everything] == []


async def test_tampering_with_what_remains_of_a_line_is_found(database: Database) -> None:
    clock = SetClock(database)
    await stand_in_line(clock)
    async for _ in close_and_prune(clock):
        pass
    await link_all(database)
    kept = (await database.read(lambda c: c.execute(select(pruned_events.c.seq)).scalars().all()))[0]
    stands_for_it, one_hash = events.c.type == HISTORY_PRUNED, pruned_events.c.seq == kept
    chain = "history_unchanged"
    cases: list[tuple[Executable, set[str]]] = [
        (update(rooms).values(serving=2), {"rows_as_recorded"}),
        (delete(events).where(stands_for_it), {"pruned_came_to_nothing", "rows_as_recorded", chain}),
        (update(events).where(stands_for_it).values(quantity=1), {"pruned_places_add_up", chain}),
        (update(pruned_events).where(one_hash).values(hash="00"), {"pruned_places_add_up", chain}),
        (delete(pruned_events).where(one_hash), {"pruned_places_add_up", chain}),
        (
            insert(places).values(sale_id=SALE.sale_id, arrival=5, buyer_id="x", ticket_id="x", joined_at=NOW),
            {"places_numbered", "rows_as_recorded"},
        ),
    ]
    for tamper, named in cases:
        assert await found_if(database, tamper) >= named


async def test_replaying_takes_no_more_memory_when_places_were_deleted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SetClock(database)
    await stand_in_line(clock)
    monkeypatch.setattr(replay, "EVENTS_MAX", 1)
    before = await database.read(replay.count_parts)
    await database.write(lambda c: c.execute(delete(places)))
    assert await database.read(replay.count_parts) == before


async def test_deliveries_that_nobody_dealt_with_are_deleted_only_with_a_retention(database: Database) -> None:
    clock = SetClock(database)
    row = {"webhook_id": "wh", "seq": 1, "type": "pool.sold_out", "subject": SKU, "body": "{}", "due_at": NOW}
    states = ("parked", "waiting")
    rows = [{**row, "delivery_id": state, "state": state, "created_at": NOW} for state in states]
    await database.write(lambda c: c.execute(insert(deliveries), rows))
    clock.advance(KEEP_DAYS * DAY + 1)
    kept = select(deliveries.c.state).order_by(deliveries.c.state)
    await Pruner(clock).pass_once()
    assert await database.read(lambda c: c.execute(kept).scalars().all()) == ["parked", "waiting"]
    await prune(clock)
    assert await database.read(lambda c: c.execute(kept).scalars().all()) == ["waiting"]


async def test_quotes_that_nobody_used_do_not_pile_up_and_a_purchase_can_be_repeated_with_its_own(
    database: Database,
) -> None:
    clock, minute = SetClock(database), 60_000

    def quote(quote_id: str, minutes_ago: int, key: str | None = None) -> Quote:
        made_at = clock.now - minutes_ago * minute - QUOTE_TTL_MS
        reservation_id = quoted_reservation_id(SKU, "ada")
        money = (4_999, "EUR", made_at, made_at + QUOTE_TTL_MS, reservation_id, 4_999, "EUR")
        return Quote(quote_id, "drop", "ada", 1, *money, key=key)

    def fill(connection: Connection) -> None:
        for one in (quote("new", 5), quote("unused", 11), quote("used", 11, "k"), quote("used long ago", 26 * 60, "k")):
            insert_quote(connection, one)

    await database.write(fill)
    await prune(clock)
    kept = await database.read(lambda c: c.execute(select(quotes.c.quote_id)).scalars().all())
    assert set(kept) == {"new", "used"}
