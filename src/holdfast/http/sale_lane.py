"""The hot endpoints of sales, and the one that streams: raw handlers, as in the fast lane."""

from collections.abc import Awaitable

from holdfast.bootstrap import House
from holdfast.http.challenge import ChallengeDesk
from holdfast.http.now import NowBoard
from holdfast.http.patrol import Patrol
from holdfast.http.purchase import PurchaseDesk
from holdfast.http.requests import Answer, Request
from holdfast.http.reservation_lane import ReservationLane
from holdfast.http.room_lane import RoomLane
from holdfast.http.streams import Streams

_SALES, _PURCHASE, _NOW, _CHALLENGE = "/v1/sales/", "/purchase", "/now", "/challenge"
_RESERVATIONS, _EVENTS = "/v1/reservations/", "/events"


class SaleLane:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._desk = PurchaseDesk(house, patrol)
        self._board = NowBoard(house)
        self._room = RoomLane(house, patrol)
        self._challenges = ChallengeDesk(house)
        self._reservations = ReservationLane(house, patrol)
        self._streams = Streams(house)

    def answer(self, request: Request) -> Awaitable[Answer] | None:
        """The answer to come, or None if the request is not for one of these."""
        path, method = request.path, request.method
        if path.startswith(_SALES):
            if path.endswith(_PURCHASE) and method == "POST":
                return self._desk.purchase(request, path[len(_SALES) : -len(_PURCHASE)])
            if path.endswith(_NOW) and method == "GET":
                return self._board.now(request, path[len(_SALES) : -len(_NOW)])
            if path.endswith(_CHALLENGE) and method == "GET":
                return self._challenges.challenge(request, path[len(_SALES) : -len(_CHALLENGE)])
            return self._room.answer(request)
        if path.startswith(_RESERVATIONS) and path.endswith(_EVENTS) and method == "GET":
            return self._streams.events(request, path[len(_RESERVATIONS) : -len(_EVENTS)])
        return self._reservations.answer(request)

    def end_streams(self) -> None:
        self._streams.end()
