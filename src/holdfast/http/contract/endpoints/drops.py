"""Drops: several sales with one waiting line and a limit per buyer across them."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import PUBLIC, READ_SALES, SALES, Answers, Endpoint, Priority, RateClass
from holdfast.http.contract.schemas.drops import DropIn, DropOut, DropPage, DropPatch, DropQuery

_endpoint = partial(Endpoint, tag="drops")

CREATE_DROP = _endpoint(
    "create_drop",
    "POST /v1/drops",
    summary="Create a drop",
    description="Sales join it when they are created, with `drop_id`, up to 50. The same request again: 200.",
    access=SALES,
    priority=Priority.FINISH,
    body=DropIn,
    answers={201: Answers("Created", DropOut), 200: Answers("It existed, with the same terms", DropOut)},
    problems=(problems.DROP_EXISTS,),
)
LIST_DROPS = _endpoint(
    "list_drops",
    "GET /v1/drops",
    summary="List drops, by ID",
    access=READ_SALES,
    priority=Priority.READ,
    query=DropQuery,
    answers={200: Answers("A page of drops", DropPage)},
)
GET_DROP = _endpoint(
    "get_drop",
    "GET /v1/drops/{drop_id}",
    summary="What a drop sells, and when",
    description="Public, and the same for everyone. The state of each sale is at its /now.",
    access=PUBLIC,
    priority=Priority.READ,
    rate=RateClass.LOOK,
    answers={200: Answers("The drop", DropOut)},
    problems=(problems.DROP_NOT_FOUND,),
    is_logged=False,
)
CHANGE_DROP = _endpoint(
    "change_drop",
    "PATCH /v1/drops/{drop_id}",
    summary="Change a drop",
    description="Its name, its limit and the pace of its room at any time; the start before the start only. A limit "
    "cannot be introduced once the drop has sales.",
    access=SALES,
    priority=Priority.FINISH,
    body=DropPatch,
    answers={200: Answers("The drop", DropOut)},
    problems=(problems.DROP_NOT_FOUND, problems.SALE_STARTED, problems.ORDER_FIXED),
)
