"""Pools."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import INVENTORY, READ_INVENTORY, Answers, Endpoint, IfUnknown, Priority
from holdfast.http.contract.headers import OPTIONAL_KEY, RECEIPT_NOTE, REPLAYED_NOTE
from holdfast.http.contract.schemas.inventory import PoolIn, PoolOut, ReservationOut, ReserveIn

_endpoint = partial(Endpoint, tag="inventory")

PUT_POOL = _endpoint(
    "put_pool",
    "PUT /v1/inventory/{sku_id}",
    summary="Create a pool, or set its total",
    access=INVENTORY,
    priority=Priority.FINISH,
    body=PoolIn,
    answers={200: Answers("The pool", PoolOut)},
    problems=(problems.BELOW_COMMITTED, problems.POOL_IN_SALE, problems.SHARDS_IMMUTABLE, problems.NOT_READY),
)
AVAILABLE = _endpoint(
    "available",
    "GET /v1/inventory/{sku_id}/available",
    summary="How many units are free, held and sold",
    access=READ_INVENTORY,
    priority=Priority.READ,
    checks_path=False,
    answers={200: Answers("The pool now", PoolOut)},
    problems=(problems.SKU_NOT_FOUND,),
    is_logged=False,
)
RESERVE = _endpoint(
    "reserve",
    "POST /v1/inventory/{sku_id}/reserve",
    summary="Hold units for an owner until a deadline",
    access=INVENTORY,
    priority=Priority.PURCHASE,
    checks_path=False,
    body=ReserveIn,
    headers=(OPTIONAL_KEY,),
    answers={
        200: Answers(
            "Held, and on disk",
            ReservationOut,
            {"Idempotency-Replayed": REPLAYED_NOTE, "Holdfast-Receipt": RECEIPT_NOTE},
        )
    },
    problems=problems.STOCK_REFUSALS,
    if_unknown=IfUnknown.SAME_KEY_OR_LIST,
    is_logged=False,
)
