"""A sale with a waiting room on one engine, by a clock that the test sets: people join, are called, buy or do not."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from sqlalchemy import Connection

from holdfast.domain.room.room import Admit, Join, Leave, Place, RoomAsk, RoomState, Stand, Standing, Use
from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale, SaleState
from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import find_room, make_room
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.stock.shared_reads import LookAt, look_into
from holdfast.room.join_queue import JoinQueue
from holdfast.room.line_advancer import LineAdvancer
from holdfast.runtime.sealing import Sealer
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import NOW
from redis_setup import RedisSetup
from set_clock import SetClock
from valkeys import ValkeyProcess

STEP_MS = 200
SEALER = Sealer([SigningKey("k", "s" * 32)])
# Long enough that a join is served even on a busy machine.
PATIENCE_S = 60.0
SALE = Sale(
    sale_id="drop",
    sku_id="sneaker",
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=NOW,
    checkout=Checkout.CART,
    payment=PaymentKind.EXTERNAL,
    loaded_units=1_000,
    room=Room(RoomMode.FIFO, 50, 20),
    state=SaleState.READY,
    created_at=NOW,
    updated_at=NOW,
)


class RoomSetup:
    def __init__(self, clock: SetClock, gate: Gate, look_at: LookAt) -> None:
        self.clock, self.gate, self.look_at = clock, gate, look_at
        self.sale = SALE
        self.desk = JoinQueue(clock, timeout_s=PATIENCE_S)
        self.advancer = self.another_advancer()
        self.stood: dict[str, Place] = {}

    def another_advancer(self) -> LineAdvancer:
        return LineAdvancer(self.clock, self.look_at, SEALER)

    async def open(self, sale: Sale = SALE) -> None:
        self.sale = sale

        def make(connection: Connection) -> None:
            insert_sale(connection, sale)
            make_room(connection, sale.sale_id, self.clock.now, SEALER)

        await self.clock.write(make)
        await self.gate.apply(sale.sku_id, [Provision(sale.loaded_units)])

    async def ask(self, *asks: RoomAsk) -> list[Stand]:
        answers = [self.desk.submit(self.sale.sale_id, ask) for ask in asks]
        return [await answer for answer in answers]

    async def join(self, buyers: Iterable[str]) -> list[Place]:
        found = []
        for stand in await self.ask(*(Join(buyer, f"ticket-of-{buyer}") for buyer in buyers)):
            assert stand.place is not None
            self.stood[stand.place.buyer_id] = stand.place
            found.append(stand.place)
        return found

    async def admit(self, *buyers: str) -> list[Standing]:
        life = self.sale.room.pass_seconds * 1_000
        asks = [Admit(b, self.stood[b].arrival, self.stood[b].ticket_id, life) for b in buyers]
        return [stand.standing for stand in await self.ask(*asks)]

    async def leave(self, buyer: str) -> None:
        place = self.stood[buyer]
        await self.ask(Leave(buyer, place.arrival, place.ticket_id))

    async def buy(self, *buyers: str) -> int:
        """How many got a unit. Their passes are noted as used."""
        sku_id = self.sale.sku_id
        commands = [Reserve(new_reservation_id(sku_id, b), b, 1, 1, ttl_ms=1_800_000) for b in buyers]
        granted = [v.reservation for v in await self.gate.apply(sku_id, commands) if v.reservation is not None]
        await self.ask(*(Use(reservation.owner_id, 1) for reservation in granted))
        return len(granted)

    async def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(STEP_MS)
            await self.advancer.pass_once()

    async def room(self) -> RoomState:
        found = await self.clock.read(lambda c: find_room(c, self.sale.sale_id))
        assert found is not None
        return found

    async def serving(self) -> int:
        return (await self.room()).serving

    def called(self, room: RoomState, since: int = 0) -> list[str]:
        """Those whose turn has come, in order, from a place on."""
        turns = {room.place_of(place.arrival): buyer for buyer, place in self.stood.items()}
        return [turns[place] for place in range(since, room.serving) if place in turns]


@asynccontextmanager
async def room_setup_on(database: Database, valkey: ValkeyProcess | None) -> AsyncIterator[RoomSetup]:
    if valkey is None:
        clock = SetClock(database)
        yield RoomSetup(clock, SqlGate(clock), look_into(clock))
        return
    valkey.command("FLUSHALL")
    world = RedisSetup(database, valkey.url)
    yield RoomSetup(world.clock, world.open_gate(), world.views.look_at)
    await world.close()
