"""The waiting room, for buyers and operators, and the published list of a lottery."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import (
    PUBLIC,
    READ_SALES,
    SALES,
    Answers,
    Document,
    Endpoint,
    IfUnknown,
    Priority,
    buyer,
)
from holdfast.http.contract.headers import IF_NONE_MATCH, TICKET
from holdfast.http.contract.schemas.mine import MineOut
from holdfast.http.contract.schemas.room import (
    JoinIn,
    JwksOut,
    LotteryQuery,
    PassOut,
    PlaceOut,
    RoomChange,
    RoomFactsOut,
    WaitOut,
)

_BUYERS = buyer("Only buyers join the queue; send a buyer token.")

_endpoint = partial(Endpoint, tag="sales")

JOIN = _endpoint(
    "join",
    "POST /v1/sales/{sale_id}/queue",
    summary="Join the queue",
    description=(
        "For buyers. One place for each: joining again returns the same one, with a fresh ticket. While the store "
        "is unavailable or overloaded, the response is 202 with a provisional ticket: a signed stamp of the "
        "arrival, which determines the place."
    ),
    access=_BUYERS,
    priority=Priority.JOIN,
    checks_path=False,
    body=JoinIn,
    is_body_required=False,
    answers={
        200: Answers("Your place, on disk", PlaceOut),
        202: Answers("A provisional ticket: your arrival is stamped, your place follows", PlaceOut),
    },
    problems=(
        problems.SALE_NOT_FOUND,
        problems.NO_WAITING_ROOM,
        problems.SALE_ENDED,
        problems.SOLD_OUT,
        problems.TIER_REQUIRED,
        problems.TOO_MANY_PLACES,
        problems.REJOIN_LIMIT,
        problems.JOIN_DENIED,
        problems.DEVICE_REQUIRED,
        problems.DEVICE_LIMIT,
        *problems.PROOF_REFUSALS,
    ),
    is_logged=False,
    is_answered_when_shed=True,
)
LEAVE = _endpoint(
    "leave",
    "DELETE /v1/sales/{sale_id}/queue",
    summary="Leave the queue",
    description="The place is released. Joining again gives a place at the end.",
    access=_BUYERS,
    priority=Priority.JOIN,
    checks_path=False,
    headers=(TICKET,),
    answers={204: Answers("Left")},
    problems=(*problems.TICKET_REFUSALS, *problems.USED_TICKETS),
    is_logged=False,
)
STATUS = _endpoint(
    "status",
    "GET /v1/sales/{sale_id}/queue/status",
    summary="Look at your place",
    description="Rarely needed: /now has `serving`, is the same for everyone and is cached.",
    access=_BUYERS,
    priority=Priority.READ,
    checks_path=False,
    headers=(TICKET,),
    answers={
        200: Answers("Your place now", PlaceOut),
        202: Answers("The ticket is provisional: your place is not known yet", PlaceOut),
    },
    problems=(*problems.TICKET_REFUSALS, *problems.USED_TICKETS),
    is_logged=False,
)
ADMISSION = _endpoint(
    "admission",
    "POST /v1/sales/{sale_id}/admission",
    summary="Ask for a pass",
    description="When position ≤ serving. A repeat returns the same pass while it is valid.",
    access=_BUYERS,
    priority=Priority.JOIN,
    checks_path=False,
    headers=(TICKET,),
    answers={200: Answers("Your pass", PassOut), 202: Answers("Not your turn yet", WaitOut)},
    problems=(
        *problems.TICKET_REFUSALS,
        problems.SALE_ENDED,
        problems.SOLD_OUT,
        problems.PLACE_RELEASED,
        problems.PASS_EXPIRED,
    ),
    is_logged=False,
)
MINE = _endpoint(
    "mine",
    "GET /v1/sales/{sale_id}/mine",
    summary="What you have in this sale",
    description=(
        "For buyers: their place and pass, if any, their reservations and their orders, from all devices and browsers."
    ),
    access=buyer("Only for buyers; send a buyer token."),
    priority=Priority.READ,
    checks_path=False,
    answers={200: Answers("Yours", MineOut)},
    problems=(problems.SALE_NOT_FOUND,),
    is_logged=False,
)
GET_ROOM = _endpoint(
    "get_room",
    "GET /v1/sales/{sale_id}/room",
    summary="The queue and its pace",
    access=READ_SALES,
    priority=Priority.READ,
    answers={200: Answers("The room", RoomFactsOut)},
    problems=(problems.SALE_NOT_FOUND, problems.NO_WAITING_ROOM),
)
CHANGE_ROOM = _endpoint(
    "change_room",
    "POST /v1/sales/{sale_id}/room",
    summary="Set the rate, pause the queue, admit people",
    access=SALES,
    priority=Priority.FINISH,
    body=RoomChange,
    answers={200: Answers("The room", RoomFactsOut)},
    problems=(problems.SALE_NOT_FOUND, problems.NO_WAITING_ROOM, problems.BEACON_NOT_DUE),
    if_unknown=IfUnknown.CHECK_SERVING,
)
LOTTERY_ENTRIES = _endpoint(
    "lottery_entries",
    "GET /v1/sales/{sale_id}/lottery/entries",
    summary="The closed list of a lottery",
    description=(
        "Public after the draw. Pages of 10,000, linked by the `Link` header; concatenated, they are the file whose"
        " SHA-256 is the `digest` in `now`."
    ),
    access=PUBLIC,
    priority=Priority.READ,
    query=LotteryQuery,
    headers=(IF_NONE_MATCH,),
    answers={
        200: Answers("One entry per line, in arrival order", Document("text/plain; charset=utf-8")),
        304: Answers("As in the answer with this ETag"),
    },
    problems=(problems.SALE_NOT_FOUND, problems.LOTTERY_NOT_DRAWN),
)
JWKS = _endpoint(
    "jwks",
    "GET /.well-known/jwks.json",
    summary="The public keys of passes",
    description="Anyone can check a pass with these: `sub` is the buyer, `sale` the sale, `exp` its end.",
    access=PUBLIC,
    priority=Priority.READ,
    answers={200: Answers("The keys", JwksOut)},
    is_logged=False,
)
