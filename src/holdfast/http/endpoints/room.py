"""The waiting room: join, look at one's place, ask for a pass, leave.

Only a join, a leave and an admission whose turn has come reach the store. A look at one's place needs the ticket and
the room's snapshot, and so does an admission that comes too early.

The sales of a drop have one line: `sale` is then what that line goes by (domain/sale/drop.py), and its tickets and
passes name it in place of a sale.

If the store is unavailable or overloaded, people get a provisional ticket, a signed stamp of their arrival
(room/arrival_stager.py). When shown again, it is exchanged for the place, once there is one.
"""

from time import monotonic

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.bootstrap.services import Services
from holdfast.domain.room.odds import Outlook
from holdfast.domain.room.risk import RiskVerdict
from holdfast.domain.room.room import Admit, Arrival, Join, Leave, Place, RoomState, Stand, Standing
from holdfast.domain.sale.sale import Phase, RoomMode, Sale
from holdfast.domain.stock.pool import is_sku_id
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, buyer_of, caller_of, json, no_content, seen_by
from holdfast.http.contract.problem import NO_STORE, Problem
from holdfast.http.contract.refusals import behind, proof_refusal
from holdfast.http.contract.schemas.mine import MineOut
from holdfast.http.contract.schemas.money import OrderOut
from holdfast.http.contract.schemas.reservations import reservation_out
from holdfast.http.contract.schemas.room import ChallengeOut, ChallengeQuery, JoinIn, PassOut, PlaceOut, WaitOut
from holdfast.http.endpoints.now import poll_ms
from holdfast.http.protection.admission import AdmissionControl
from holdfast.http.protection.join_checks import JoinChecks, Terms
from holdfast.http.protection.shedding import Feature
from holdfast.room.challenge import USUAL, Entry
from holdfast.room.outlook import outlook_of
from holdfast.room.prospects import Prospects
from holdfast.room.tokens import MAX_TICKET_S, Pass, Provisional, Ticket, TicketIds
from holdfast.runtime.times import rfc3339

# A ticket outlives its sale by this long; joining again gives another for the same place.
TICKET_OUTLIVES_S = 7 * 86_400
SOONEST_RETRY_MS = 1_000


class RoomEndpoints:
    def __init__(self, services: Services, admission: AdmissionControl) -> None:
        self._catalogue, self._rooms, self._queue = services.catalogue, services.room_snapshot, services.join_queue
        self._tokens, self._challenges = services.tokens, services.challenges
        self._places, self._shedder, self._reaper = admission.places, admission.shedder, admission.reaper
        self._prospects = Prospects(services.pool_reads.look, services.catalogue.now_ms)
        self._lag_guard = services.lag_guard
        self._ticket_ids = TicketIds()
        self._mine = services.find_mine
        self._stager = services.arrival_stager
        self._quotes = services.quotes
        self._checks = JoinChecks(services, admission)

    async def challenge(self, request: Request, sale_id: str, query: ChallengeQuery) -> Answer:
        sale = await self._catalogue.line_of(await self._find(sale_id))
        if sale.proof_of_work is None and query.level == USUAL:
            return Answer(204, [NO_STORE], b"")
        buyer_id = None if request.caller is None else request.caller.buyer_id
        return json(ChallengeOut.of(await self._challenges.make(sale, buyer_id, query.level)))

    async def join(self, request: Request, sale_id: str, given: JoinIn) -> Answer:
        wanted = await self._with_room(sale_id)
        sale = await self._catalogue.line_of(wanted)
        _refuse_ended(sale, self._now())
        if self._lag_guard.is_shedding:
            raise behind()
        if wanted.required_tier is not None and caller_of(request).tier < wanted.required_tier:
            raise Problem(problems.TIER_REQUIRED)
        terms = await self._checks.assess(request, sale, given)
        ticket_id = self._ticket_ids.next()
        try:
            stand = await self._join(request, sale, given, ticket_id, terms)
        except EngineError:
            self._stager.note_failure()
            stand = None
        if stand is None or stand.standing is Standing.MERGING:
            return self._join_later(request, sale, given, ticket_id, terms)
        if stand.standing is Standing.LEFT_TOO_OFTEN:
            raise Problem(problems.REJOIN_LIMIT)
        if stand.place is None:
            raise proof_refusal(Entry.SPENT)
        if stand.place.ticket_id == ticket_id:
            self._places.taken(sale.sale_id, ticket_id, request.connection)
        # The place exists: say so, even if the room's snapshot is old.
        room = self._rooms.cached(sale.sale_id) or await self._rooms.find(sale.sale_id)
        return json(self._place(sale, room, self._ticket(sale, room, stand.place), stand))

    async def _join(self, request: Request, sale: Sale, given: JoinIn, ticket_id: str, terms: Terms) -> Stand | None:
        """None if the arrival is to be stamped. A proof of work is checked in any case."""
        asks_proof = sale.proof_of_work is not None or terms.level != USUAL
        if not asks_proof and (request.is_shed or self._stager.is_holding):
            return None
        if request.is_shed:
            # Beyond the limit of requests in flight, the store is not used.
            entry = await self._challenges.check_unspent(sale, buyer_of(request), given.proof, terms.level)
            self._require(entry, request, sale, terms.level)
            return None
        await self._refuse_sold_out(sale)
        entry = await self.check_entry(request, sale, buyer_of(request), given.proof, terms.level)
        if self._stager.is_holding:
            return None
        await self._checks.claim_device(sale, buyer_of(request), given)
        if terms.is_last and self._is_before_draw(sale):
            return None
        ask = Join(buyer_of(request), ticket_id, entry is Entry.REPEATED, self._arrived_at(request))
        return await self._ask(request, sale, ask)

    def _join_later(self, request: Request, sale: Sale, given: JoinIn, ticket_id: str, terms: Terms) -> Answer:
        self._places.check(sale.sale_id, request.connection)
        proof = given.proof if sale.proof_of_work or terms.level != USUAL else None
        if not self._challenges.admits_unspent(proof, buyer_of(request)):
            raise proof_refusal(Entry.SPENT)
        self._checks.claim_device_here(sale, buyer_of(request), given)
        if terms.is_last and self._is_before_draw(sale):
            # Only the ticket has it. Nothing is kept here, or stored.
            now = self._arrived_at(request)
            return self._provisional(
                sale, Arrival(sale.sale_id, buyer_of(request), ticket_id, now, "", 0, is_last=True)
            )
        arrival = self._stager.stamp(sale.sale_id, buyer_of(request), ticket_id, self._arrived_at(request))
        if arrival.ticket_id == ticket_id:
            self._places.taken(sale.sale_id, ticket_id, request.connection)
        return self._provisional(sale, arrival)

    def _provisional(self, sale: Sale, arrival: Arrival) -> Answer:
        room = self._rooms.cached(sale.sale_id)
        iat, exp = self._life(sale)
        ticket = Provisional(
            arrival.buyer_id,
            arrival.sale_id,
            arrival.ticket_id,
            arrival.arrived_at,
            arrival.node,
            arrival.sequence,
            iat,
            exp,
            arrival.is_last,
        )
        signed, serving = self._tokens.sign_provisional(ticket), 0 if room is None else room.serving
        return json(PlaceOut(signed, None, serving, None, None, None, False, [], True), 202)

    def _is_before_draw(self, sale: Sale) -> bool:
        """Whether people who are placed last still have to wait: until the list is closed, or the sale opens."""
        if sale.room.mode is not RoomMode.LOTTERY:
            return self._now() < sale.starts_at
        room = self._rooms.cached(sale.sale_id)
        return room is None or (room.opened_at is None and room.entrants is None)

    def _arrived_at(self, request: Request) -> int:
        return self._now() - int((monotonic() - request.arrived) * 1000)

    async def check_entry(
        self, request: Request, sale: Sale, buyer_id: str, proof: str | None, level: int = USUAL
    ) -> Entry:
        """Called before a place is given. Raises the refusal; else the proof, if one was needed, is spent.

        `REPEATED` means that this buyer spent this proof before: if they have a place they keep it, if they left it
        they need another proof.
        """
        self._places.check(sale.sale_id, request.connection)
        entry = await self._challenges.check(sale, buyer_id, proof, level=level)
        self._require(entry, request, sale, level)
        return entry

    def _require(self, entry: Entry, request: Request, sale: Sale, level: int) -> None:
        if level != USUAL and entry in (Entry.MISSING, Entry.TOO_EASY):
            self._checks.note(request, sale, RiskVerdict.HARDER_PUZZLE)
            raise Problem(problems.PROOF_REQUIRED, level=level).recorded()
        if entry not in (Entry.NOT_ASKED, Entry.REPEATED, Entry.ADMITTED):
            raise proof_refusal(entry)

    async def status(self, request: Request, sale_id: str) -> Answer:
        sale, ticket = await self._with_ticket(request, sale_id)
        if isinstance(ticket, Arrival):
            return self._provisional(sale, ticket)
        room = await self._rooms.find(sale.sale_id)
        return json(self._place(sale, room, ticket))

    async def mine(self, request: Request, sale_id: str) -> Answer:
        sale = await self._find(sale_id)
        found = await self._mine.find(sale, buyer_of(request), seen_by(request))
        place, given = (None, None) if found.place is None else await self._standing(sale, found.place)
        prices = await self._quotes.prices_of([one.reservation_id for one in found.reservations])
        return json(
            MineOut(
                UNSET if place is None else place,
                UNSET if given is None else given,
                [reservation_out(one, sale, price=prices.get(one.reservation_id)) for one in found.reservations],
                [OrderOut.of(order) for order in found.orders],
            )
        )

    async def _standing(self, sale: Sale, place: Place) -> tuple[PlaceOut | None, PassOut | None]:
        """What join and admission would answer the owner of this place. Nothing once the pass has expired."""
        if place.pass_until is not None and place.pass_until <= self._now():
            return None, None
        sale = await self._catalogue.line_of(sale)
        room = self._rooms.cached(sale.sale_id) or await self._rooms.find(sale.sale_id)
        ticket = self._ticket(sale, room, place)
        given = None if place.pass_until is None else self._pass(sale, ticket, place.pass_until)
        return self._place(sale, room, ticket), given

    async def leave(self, request: Request, sale_id: str) -> Answer:
        try:
            sale, ticket = await self._with_ticket(request, sale_id)
        except Problem as problem:
            if problem.kind is problems.PLACE_RELEASED:
                return no_content()
            raise
        if isinstance(ticket, Arrival):
            if ticket.is_last:
                return no_content()
            raise Problem(problems.BUSY, "Your arrival has no place yet that you could leave. Retry shortly.")
        stand = await self._ask(request, sale, Leave(ticket.sub, ticket.arrival, ticket.jti))
        if stand.place is not None:
            self._places.left(ticket.jti)
            self._rooms.return_pass(ticket.jti)
        return no_content()

    async def admit(self, request: Request, sale_id: str) -> Answer:
        sale, ticket = await self._with_ticket(request, sale_id)
        _refuse_ended(sale, self._now())
        await self._refuse_sold_out(sale)
        room = await self._rooms.find(sale.sale_id)
        if isinstance(ticket, Arrival):
            return self._wait(sale, room, None)
        place = place_in(sale, room, ticket.arrival)
        if place is None or place >= room.serving:
            return self._wait(sale, room, place)
        ask = Admit(ticket.sub, ticket.arrival, ticket.jti, sale.room.pass_seconds * 1000)
        stand = await self._ask(request, sale, ask)
        if stand.standing is Standing.WAITING:
            return self._wait(sale, room, place)
        if stand.place is None:
            raise Problem(problems.PLACE_RELEASED)
        assert stand.place.pass_until is not None
        if stand.standing is Standing.OVER:
            raise Problem(problems.PASS_EXPIRED, expired_at=rfc3339(stand.place.pass_until))
        return json(self._pass(sale, ticket, stand.place.pass_until))

    async def _refuse_sold_out(self, sale: Sale) -> None:
        """Nobody waits for nothing."""
        if await self._prospects.are_gone(self._catalogue.sold_to_line_of(sale)):
            raise Problem(problems.SOLD_OUT)

    async def _find(self, sale_id: str) -> Sale:
        sale = self._catalogue.cached(sale_id)
        if sale is None:
            sale = await self._catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise Problem(problems.SALE_NOT_FOUND)
        return sale

    async def _with_room(self, sale_id: str) -> Sale:
        sale = await self._find(sale_id)
        if sale.room.mode is RoomMode.OFF:
            raise no_waiting_room(sale)
        return sale

    async def _with_ticket(self, request: Request, sale_id: str) -> tuple[Sale, Ticket | Arrival]:
        """The line, and an arrival for a provisional ticket that has no place yet."""
        sale = await self._catalogue.line_of(await self._with_room(sale_id))
        text = request.header("holdfast-ticket")
        if text is None:
            raise Problem(problems.TICKET_REQUIRED)
        now_s, mine = self._now() / 1000, (buyer_of(request), sale.sale_id)
        ticket = self._tokens.read_ticket(text, now_s)
        if ticket is not None and (ticket.sub, ticket.sale) == mine:
            return sale, ticket
        stamped = self._tokens.read_provisional(text, now_s) if ticket is None else None
        if stamped is None or (stamped.sub, stamped.sale) != mine:
            raise Problem(problems.TICKET_INVALID)
        return sale, await self._exchange(request, sale, stamped)

    async def _exchange(self, request: Request, sale: Sale, given: Provisional) -> Ticket | Arrival:
        """The ticket of the place that follows from a provisional one, if there is a place already. While arrivals are
        kept here, a new place might be ahead of somebody who came before."""
        _refuse_ended(sale, self._now())
        arrival = Arrival(sale.sale_id, given.sub, given.jti, given.at, given.node, given.seq, given.last)
        if given.last:
            if self._is_before_draw(sale):
                return arrival
            # Behind everybody who is already in line.
            arrival = replace(arrival, arrived_at=self._now(), node=self._stager.node, is_last=False)
        if self._stager.is_away:
            self._stager.show(arrival)
            return arrival
        # Finds the place. A ticket without one gets it in order of arrival, when the staged are merged.
        ask = Join(given.sub, given.jti, only_again=True, arrived_at=arrival.arrived_at, once=True)
        try:
            stand = await self._ask(request, sale, ask)
        except EngineError:
            self._stager.note_failure()
            self._stager.show(arrival)
            return arrival
        if stand.standing is Standing.LEFT_TOO_OFTEN:
            raise Problem(problems.REJOIN_LIMIT)
        if stand.standing is Standing.USED:
            raise Problem(problems.PLACE_RELEASED)
        if stand.place is None:
            self._stager.show(arrival)
            return arrival
        if stand.standing is Standing.OVER:
            raise Problem(problems.PASS_EXPIRED, expired_at=rfc3339(stand.place.pass_until or 0))
        room = self._rooms.cached(sale.sale_id) or await self._rooms.find(sale.sale_id)
        return self._ticket(sale, room, stand.place)

    async def _ask(self, request: Request, sale: Sale, ask: Join | Admit | Leave) -> Stand:
        return await self._reaper.wait(self._queue.submit(sale.sale_id, ask), request.connection)

    def _now(self) -> int:
        return self._catalogue.now_ms()

    def _ticket(self, sale: Sale, room: RoomState, place: Place) -> Ticket:
        iat, exp = self._life(sale)
        return Ticket(
            sub=place.buyer_id,
            sale=sale.sale_id,
            jti=place.ticket_id,
            arrival=place.arrival,
            iat=iat,
            exp=exp,
            seed_hash=room.seed_hash if sale.room.mode is RoomMode.LOTTERY else None,
            beacon_source=sale.room.beacon,
        )

    def _life(self, sale: Sale) -> tuple[int, int]:
        """From when until when a ticket is valid, in seconds."""
        now_s = self._now() // 1000
        last_s = max(now_s, max(sale.starts_at, sale.ends_at or 0) // 1000) + TICKET_OUTLIVES_S
        return now_s, min(last_s, now_s + MAX_TICKET_S)

    def _place(self, sale: Sale, room: RoomState, ticket: Ticket, stand: Stand | None = None) -> PlaceOut:
        """`stand`: what the store has just answered, which is newer than the snapshot."""
        place, serving = place_in(sale, room, ticket.arrival), room.serving
        ahead = None if place is None else room.ahead_of(place)
        if stand is not None:
            serving = max(serving, stand.serving)
            ahead = None if ahead is None else min(ahead, max(stand.waiting - 1, 0))
        position = None if place is None else place + 1
        entry = room.leavers.number_of(ticket.arrival) if room.is_drawn else None
        outlook = self._outlook(sale, room, place, ahead)
        return PlaceOut(
            self._tokens.sign_ticket(replace(ticket, position=position, entry=entry)),
            position,
            serving,
            ahead,
            None if outlook is None else outlook.eta_seconds,
            None if outlook is None or outlook.odds is None else round(outlook.odds, 4),
            outlook is not None and outlook.is_likely_sold_out,
            [Feature.ODDS] if outlook is None else [],
        )

    def _outlook(self, sale: Sale, room: RoomState, place: int | None, ahead: int | None = None) -> Outlook | None:
        """None while forecasts are off under load: people keep their places without them."""
        return None if self._shedder.is_strained else outlook_of(sale, room, place, self._now(), ahead)

    def _wait(self, sale: Sale, room: RoomState, place: int | None) -> Answer:
        outlook = self._outlook(sale, room, place)
        retry = poll_ms(sale, room, self._now())
        if outlook is not None and outlook.eta_seconds is not None:
            retry = min(retry, max(outlook.eta_seconds * 500, SOONEST_RETRY_MS))
        return json(WaitOut(None if place is None else place + 1, room.serving, retry), 202)

    def _pass(self, sale: Sale, ticket: Ticket, pass_until: int) -> PassOut:
        exp = -(-pass_until // 1000)
        given = Pass(ticket.sub, sale.sale_id, ticket.jti, min(self._now() // 1000, exp - sale.room.pass_seconds), exp)
        return PassOut(self._tokens.sign_pass(given), rfc3339(pass_until))


def no_waiting_room(sale: Sale) -> Problem:
    return Problem(problems.NO_WAITING_ROOM, f"The sale {sale.sale_id} has no waiting room: purchase at once.")


def _refuse_ended(sale: Sale, now: int) -> None:
    if sale.phase(now, None) is Phase.ENDED:
        raise Problem(problems.SALE_ENDED)


def place_in(sale: Sale, room: RoomState, arrival: int) -> int | None:
    """From 0, or None before the draw."""
    awaits_draw = sale.room.mode is RoomMode.LOTTERY and (room.opened_at is None or room.entrants is not None)
    return None if awaits_draw and not room.is_drawn else room.place_of(arrival)
