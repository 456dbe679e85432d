"""The waiting room's endpoints: join, look at one's place, ask for a pass, leave. Raw handlers, as in the fast lane.

Only a join, a leave and an admission whose turn has come reach the store. A look at one's place needs the ticket and
the board, and so does an admission that comes too early.
"""

from collections.abc import Awaitable

import msgspec
from msgspec.structs import replace

from holdfast.bootstrap import House
from holdfast.domain.odds import Outlook
from holdfast.domain.pool import is_sku_id
from holdfast.domain.room import Admit, Join, Leave, RoomState, Stand, Standing
from holdfast.domain.sale import RoomMode, Sale
from holdfast.http.challenge import check_entry, refuse_entry
from holdfast.http.fast_lane import identify
from holdfast.http.identity import Caller
from holdfast.http.invalid import from_decoding
from holdfast.http.now import poll_ms
from holdfast.http.patrol import Patrol
from holdfast.http.problems import forbidden
from holdfast.http.requests import Answer, Request, header_of
from holdfast.http.room_problems import (
    no_room,
    pass_over,
    place_given_up,
    refuse_ended,
    ticket_invalid,
    ticket_required,
    too_low_tier,
)
from holdfast.http.room_schemas import JoinIn
from holdfast.http.sale_problems import sale_not_found
from holdfast.http.shedding import Feature
from holdfast.http.times import rfc3339
from holdfast.room.challenge import Entry
from holdfast.room.outlook import outlook_of
from holdfast.room.tokens import MAX_TICKET_S, Pass, Ticket, TicketIds

_JSON = [("content-type", "application/json"), ("cache-control", "no-store")]
_SALES, _QUEUE, _STATUS, _ADMISSION = "/v1/sales/", "/queue", "/queue/status", "/admission"
# A ticket outlives its sale by this long; who joins again gets another for the same place.
TICKET_OUTLIVES_S = 7 * 86_400
SOONEST_RETRY_MS = 1_000

_encode = msgspec.json.Encoder().encode
_parse = msgspec.json.Decoder(JoinIn).decode


class RoomLane:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._house = house
        self._patrol = patrol
        self._ticket_ids = TicketIds()

    def answer(self, request: Request) -> Awaitable[Answer] | None:
        """The answer to come, or None. The path is known to begin as those of sales do."""
        path, method = request.path, request.method
        if path.endswith(_QUEUE) and method == "POST":
            return self.join(request, path[len(_SALES) : -len(_QUEUE)])
        if path.endswith(_QUEUE) and method == "DELETE":
            return self.leave(request, path[len(_SALES) : -len(_QUEUE)])
        if path.endswith(_ADMISSION) and method == "POST":
            return self.admit(request, path[len(_SALES) : -len(_ADMISSION)])
        if path.endswith(_STATUS) and method == "GET":
            return self.status(request, path[len(_SALES) : -len(_STATUS)])
        return None

    async def join(self, request: Request, sale_id: str) -> Answer:
        caller, sale = await self._enter(request, sale_id)
        assert caller.buyer_id is not None
        try:
            given = _parse(request.body or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise from_decoding(exc) from exc
        refuse_ended(sale, self._now())
        if sale.required_tier is not None and caller.tier < sale.required_tier:
            raise too_low_tier()
        entry = await check_entry(self._house, sale, caller.buyer_id, given.proof, request)
        ticket_id = self._ticket_ids.next()
        stand = await self._ask(request, sale, Join(caller.buyer_id, ticket_id, entry is Entry.REPEATED))
        if stand.place is None:
            raise refuse_entry(Entry.SPENT)
        if stand.place.ticket_id == ticket_id:
            self._house.door.places.taken(sale_id, request)
        # The place is taken: whoever has it is told so, even if how the room stands was last seen a while ago.
        room = self._house.board.at_hand(sale_id) or await self._house.board.find(sale_id)
        return Answer(200, [*_JSON], self._told(sale, room, self._ticket(sale, room, stand), stand.serving))

    async def status(self, request: Request, sale_id: str) -> Answer:
        _, sale, ticket = await self._with_ticket(request, sale_id)
        room = await self._house.board.find(sale_id)
        return Answer(200, [*_JSON], self._told(sale, room, ticket, 0))

    async def leave(self, request: Request, sale_id: str) -> Answer:
        _, sale, ticket = await self._with_ticket(request, sale_id)
        await self._ask(request, sale, Leave(ticket.sub, ticket.arrival, ticket.jti))
        self._house.door.places.left(sale_id, request)
        return Answer(204, [], b"")

    async def admit(self, request: Request, sale_id: str) -> Answer:
        _, sale, ticket = await self._with_ticket(request, sale_id)
        refuse_ended(sale, self._now())
        room = await self._house.board.find(sale_id)
        place = place_in(sale, room, ticket.arrival)
        if place is None or place >= room.serving:
            return self._wait(sale, room, place)
        ask = Admit(ticket.sub, ticket.arrival, ticket.jti, sale.room.pass_seconds * 1000)
        stand = await self._ask(request, sale, ask)
        if stand.standing is Standing.WAITING:
            return self._wait(sale, room, place)
        if stand.place is None:
            raise place_given_up()
        assert stand.place.pass_until is not None
        if stand.standing is Standing.OVER:
            raise pass_over(stand.place.pass_until)
        return self._admitted(sale, ticket, stand.place.pass_until)

    async def _enter(self, request: Request, sale_id: str) -> tuple[Caller, Sale]:
        house = self._house
        caller = request.caller or await identify(house, request.authorization)
        if caller.buyer_id is None:
            raise forbidden("Buyers stand in line, with a token of their own.")
        sale = house.catalogue.at_hand(sale_id)
        if sale is None:
            sale = await house.catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise sale_not_found()
        if sale.room.mode is RoomMode.OFF:
            raise no_room(sale)
        return caller, sale

    async def _with_ticket(self, request: Request, sale_id: str) -> tuple[Caller, Sale, Ticket]:
        caller, sale = await self._enter(request, sale_id)
        text = header_of(request, "holdfast-ticket")
        if text is None:
            raise ticket_required()
        ticket = self._house.tokens.read_ticket(text, self._now() / 1000)
        if ticket is None or (ticket.sub, ticket.sale) != (caller.buyer_id, sale_id):
            raise ticket_invalid()
        return caller, sale, ticket

    async def _ask(self, request: Request, sale: Sale, ask: Join | Admit | Leave) -> Stand:
        return await self._patrol.await_verdict(self._house.desk.submit(sale.sale_id, ask), request.wire)

    def _now(self) -> int:
        return self._house.catalogue.now_ms()

    def _ticket(self, sale: Sale, room: RoomState, stand: Stand) -> Ticket:
        assert stand.place is not None
        now_s = self._now() // 1000
        last_s = max(now_s, max(sale.starts_at, sale.ends_at or 0) // 1000) + TICKET_OUTLIVES_S
        return Ticket(
            sub=stand.place.buyer_id,
            sale=sale.sale_id,
            jti=stand.place.ticket_id,
            arrival=stand.place.arrival,
            iat=now_s,
            exp=min(last_s, now_s + MAX_TICKET_S),
            seed_hash=room.seed_hash if sale.room.mode is RoomMode.LOTTERY else None,
        )

    def _told(self, sale: Sale, room: RoomState, ticket: Ticket, serving: int) -> bytes:
        place, serving = place_in(sale, room, ticket.arrival), max(serving, room.serving)
        position = None if place is None else place + 1
        body = {
            "ticket": self._house.tokens.sign_ticket(replace(ticket, position=position)),
            "position": position,
            "serving": serving,
            "ahead": None if place is None else max(place - serving, 0),
        }
        return _encode(body | _forecast(self._outlook(sale, room, place)))

    def _outlook(self, sale: Sale, room: RoomState, place: int | None) -> Outlook | None:
        """None while forecasts are switched off: people keep their places without them."""
        is_off = self._house.door.shedder.is_strained
        return None if is_off else outlook_of(sale, room, place, self._now())

    def _wait(self, sale: Sale, room: RoomState, place: int | None) -> Answer:
        outlook = self._outlook(sale, room, place)
        retry = poll_ms(sale, room, self._now())
        if outlook is not None and outlook.eta_seconds is not None:
            retry = min(retry, max(outlook.eta_seconds * 500, SOONEST_RETRY_MS))
        position = None if place is None else place + 1
        return Answer(202, [*_JSON], _encode({"position": position, "serving": room.serving, "retry_after_ms": retry}))

    def _admitted(self, sale: Sale, ticket: Ticket, pass_until: int) -> Answer:
        exp = -(-pass_until // 1000)
        given = Pass(ticket.sub, sale.sale_id, ticket.jti, min(self._now() // 1000, exp - sale.room.pass_seconds), exp)
        body = {"pass": self._house.tokens.sign_pass(given), "expires_at": rfc3339(pass_until)}
        return Answer(200, [*_JSON], _encode(body))


def _forecast(outlook: Outlook | None) -> dict[str, object]:
    if outlook is None:
        return {"eta_seconds": None, "odds": None, "hopeless": False, "switched_off": [Feature.ODDS]}
    odds = round(outlook.odds, 4)
    return {"eta_seconds": outlook.eta_seconds, "odds": odds, "hopeless": outlook.is_hopeless, "switched_off": []}


def place_in(sale: Sale, room: RoomState, arrival: int) -> int | None:
    """From 0, or None before the draw."""
    awaits_draw = sale.room.mode is RoomMode.LOTTERY and (room.opened_at is None or room.entrants is not None)
    return None if awaits_draw and room.digest is None else room.place_of(arrival)
