"""Sales, for operators and for everyone."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.cell_problems import CELL_MISMATCH
from holdfast.http.contract.endpoint import (
    PUBLIC,
    PUBLIC_OR_TOKEN,
    READ_SALES,
    SALES,
    Answers,
    Endpoint,
    IfUnknown,
    Priority,
    RateClass,
)
from holdfast.http.contract.headers import CACHE_TAGS, FOR_THE_EDGE, IF_NONE_MATCH, REPLAYED_NOTE, RESTOCK_KEY
from holdfast.http.contract.schemas.room import ChallengeOut, ChallengeQuery, NowOut
from holdfast.http.contract.schemas.sales import (
    OperatorSaleOut,
    RestockIn,
    SaleIn,
    SaleOut,
    SalePage,
    SalePatch,
    SaleQuery,
)
from holdfast.http.contract.team_problems import APPROVAL_REQUIRED

_SALE = {200: Answers("The sale", OperatorSaleOut)}
_UNCHANGED = Answers("As in the answer with this ETag")

_endpoint = partial(Endpoint, tag="sales")

CREATE_SALE = _endpoint(
    "create_sale",
    "POST /v1/sales",
    summary="Create a sale and load its pool",
    description="It opens once its pool is loaded and checked; see `state` and `problem`. The same request again: 200.",
    access=SALES,
    priority=Priority.FINISH,
    body=SaleIn,
    answers={
        201: Answers("Created", OperatorSaleOut),
        200: Answers("It existed, with the same terms", OperatorSaleOut),
    },
    problems=(
        problems.SALE_EXISTS,
        problems.SKU_IN_SALE,
        problems.BELOW_COMMITTED,
        problems.DROP_NOT_FOUND,
        problems.DROP_FULL,
        CELL_MISMATCH,
    ),
)
LIST_SALES = _endpoint(
    "list_sales",
    "GET /v1/sales",
    summary="List sales, by ID",
    access=READ_SALES,
    priority=Priority.READ,
    query=SaleQuery,
    answers={200: Answers("A page of sales", SalePage)},
)
GET_SALE = _endpoint(
    "get_sale",
    "GET /v1/sales/{sale_id}",
    summary="The public facts of a sale",
    description="Public, and the same for everyone, so that caches can answer. "
    "Service keys with the scope `sales` see more.",
    access=PUBLIC_OR_TOKEN,
    priority=Priority.READ,
    rate=RateClass.LOOK,
    headers=(IF_NONE_MATCH,),
    answers={200: Answers("The sale", (SaleOut, OperatorSaleOut), CACHE_TAGS), 304: _UNCHANGED},
    problems=(problems.SALE_NOT_FOUND,),
    is_logged=False,
)
CHANGE_SALE = _endpoint(
    "change_sale",
    "PATCH /v1/sales/{sale_id}",
    summary="Change a sale",
    description="Names, limits, times and the room at any time; price, payment and the start before the start only.",
    access=SALES,
    priority=Priority.FINISH,
    body=SalePatch,
    answers=_SALE,
    problems=(
        problems.SALE_NOT_FOUND,
        problems.SALE_STARTED,
        problems.ORDER_FIXED,
        problems.SALE_ENDED,
        APPROVAL_REQUIRED,
    ),
)
PAUSE_SALE = _endpoint(
    "pause_sale",
    "POST /v1/sales/{sale_id}/pause",
    summary="Pause new reservations",
    access=SALES,
    priority=Priority.FINISH,
    answers=_SALE,
    problems=(problems.SALE_NOT_FOUND, problems.SALE_ENDED),
)
RESUME_SALE = _endpoint(
    "resume_sale",
    "POST /v1/sales/{sale_id}/resume",
    summary="Resume a paused sale",
    access=SALES,
    priority=Priority.FINISH,
    answers=_SALE,
    problems=(problems.SALE_NOT_FOUND, problems.SALE_ENDED),
)
CLOSE_SALE = _endpoint(
    "close_sale",
    "POST /v1/sales/{sale_id}/close",
    summary="End a sale now, permanently",
    description="No new reservations. Held units can still be paid for until their deadline.",
    access=SALES,
    priority=Priority.FINISH,
    answers=_SALE,
    problems=(problems.SALE_NOT_FOUND, APPROVAL_REQUIRED),
)
RESTOCK_SALE = _endpoint(
    "restock_sale",
    "POST /v1/sales/{sale_id}/restock",
    summary="Add units, or remove free ones",
    access=SALES,
    priority=Priority.FINISH,
    body=RestockIn,
    headers=(RESTOCK_KEY,),
    answers={200: Answers("The sale", OperatorSaleOut, {"Idempotency-Replayed": REPLAYED_NOTE})},
    problems=(
        problems.SALE_NOT_FOUND,
        problems.SALE_ENDED,
        problems.NOT_LOADED,
        problems.BELOW_COMMITTED,
        problems.RESTOCK_UNKNOWN,
        problems.IDEMPOTENCY_KEY_REUSED,
    ),
    if_unknown=IfUnknown.SAME_KEY_OR_TOTAL,
)
NOW = _endpoint(
    "now",
    "GET /v1/sales/{sale_id}/now",
    summary="The current state of a sale",
    description="Public, the same for everyone, and cacheable for a second.",
    access=PUBLIC,
    priority=Priority.READ,
    rate=RateClass.LOOK,
    checks_path=False,
    headers=(IF_NONE_MATCH,),
    answers={200: Answers("The sale now", NowOut, {"Holdfast-Sale": FOR_THE_EDGE, **CACHE_TAGS}), 304: _UNCHANGED},
    problems=(problems.SALE_NOT_FOUND,),
    is_logged=False,
)
CHALLENGE = _endpoint(
    "challenge",
    "GET /v1/sales/{sale_id}/challenge",
    summary="A challenge to solve before joining",
    description="Public; ALTCHA's clients solve it, and the join takes the solution as `proof`. With a buyer's token "
    "it is for that buyer alone. It is valid for two minutes and for one join.",
    access=PUBLIC_OR_TOKEN,
    priority=Priority.JOIN,
    checks_path=False,
    query=ChallengeQuery,
    answers={200: Answers("A new challenge", ChallengeOut), 204: Answers("This sale requires no proof")},
    problems=(problems.SALE_NOT_FOUND,),
    is_logged=False,
)
