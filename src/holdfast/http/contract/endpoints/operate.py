"""Operating: health, metrics, pools, what needs attention, the audit, keys."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import (
    ADMIN,
    MONEY,
    OPERATE,
    PUBLIC,
    READ_OPERATE,
    Answers,
    Document,
    Endpoint,
    IfUnknown,
    Priority,
    RateClass,
)
from holdfast.http.contract.schemas.inventory import PoolsOut
from holdfast.http.contract.schemas.money import (
    CompensateIn,
    CompensationOut,
    FullReconciliationOut,
    ParkedPage,
    ParkedQuery,
    RetriedOut,
    RetryIn,
)
from holdfast.http.contract.schemas.operate import (
    AuditQuery,
    FeaturesOut,
    FunnelOut,
    HealthOut,
    HistoryQuery,
    KeyIn,
    LagsOut,
    LiveOut,
    NewServiceKeyOut,
    ReadyOut,
    SaleHistoryOut,
    ServiceKeyList,
    SystemHealthOut,
    TimelineOut,
)
from holdfast.http.contract.team_problems import APPROVAL_REQUIRED

_METRICS = """\
# HELP holdfast_pool_units Units by state. The three add up to the total.
# TYPE holdfast_pool_units gauge
holdfast_pool_units{sku_id="demo",state="available"} 498.0
holdfast_pool_units{sku_id="demo",state="held"} 2.0
holdfast_pool_units{sku_id="demo",state="sold"} 0.0
…"""

_endpoint = partial(Endpoint, tag="operate", priority=Priority.CONSOLE)

LIVE = _endpoint(
    "live",
    "GET /healthz/live",
    summary="The process runs",
    has_head=True,
    access=PUBLIC,
    priority=None,
    rate=RateClass.PROBE,
    answers={200: Answers("It runs", HealthOut)},
    example={"status": "live"},
    is_logged=False,
)
READY = _endpoint(
    "ready",
    "GET /healthz/ready",
    summary="Readiness: can sales be served?",
    has_head=True,
    description="From memory: every second the server writes to its stores, and a check passes if that succeeded in "
    "the last two seconds. 503, with the same `checks`, only while nothing can be sold or a task of this process has "
    "stopped. `degraded` if something else fails: see its `reason`, such as `no_worker`, `store_read_only`, "
    "`disk_full`, `file_replaced`, `store_unreachable`, `no_answer`, `hanging`, `failing`, or `waiting_for_store` at "
    "the start.",
    access=PUBLIC,
    priority=None,
    rate=RateClass.PROBE,
    answers={200: Answers("Ready", ReadyOut)},
    problems=(problems.NOT_READY,),
    example={
        "status": "degraded",
        "checks": {
            "selling": {"ok": True, "age_ms": 412},
            "settling": {"ok": False, "reason": "no_worker", "age_ms": 8310},
        },
        "degraded_features": [],
        "unavailable_dependencies": [],
    },
)
METRICS = _endpoint(
    "metrics",
    "GET /metrics",
    summary="Metrics for Prometheus",
    access=READ_OPERATE,
    answers={200: Answers("In Prometheus' text format", Document("text/plain", _METRICS))},
)
FEATURES = _endpoint(
    "get_features",
    "GET /v1/features",
    summary="What is on, and what is off right now",
    description="Lets a shop turn off its own optional features under load. Cacheable for two seconds. "
    "`selling`, `settling` and `joining` are what buyers need, as of the last heartbeats; all others are turned "
    "off under load.",
    access=PUBLIC,
    # Needed most under load, and answered from memory.
    priority=Priority.FINISH,
    rate=RateClass.LOOK,
    answers={200: Answers("The features", FeaturesOut)},
    example={
        "features": {"selling": {"enabled": True}, "optional_reads": {"enabled": False, "reason": "host"}},
        "degraded_features": ["optional_reads"],
    },
    is_logged=False,
)
GET_LAG = _endpoint(
    "get_lag",
    "GET /v1/ops/lag",
    summary="How far background work is behind",
    description="Read from the stores at most a second ago, so it is right even if no worker runs.",
    access=READ_OPERATE,
    # Used by a few operators, mostly under load.
    priority=Priority.FINISH,
    answers={200: Answers("Items and seconds, by kind of work", LagsOut)},
)
GET_POOLS = _endpoint(
    "get_pools",
    "GET /v1/ops/pools",
    summary="Consistency of every pool, within itself and between gate and ledger",
    description="From the last check, at most seconds ago. A pool that could not be checked is `check_overdue`.",
    access=READ_OPERATE,
    answers={200: Answers("All pools", PoolsOut)},
)
RECONCILE = _endpoint(
    "reconcile",
    "POST /v1/ops/reconcile",
    summary="Check every pool and every payment now",
    description="`ok` covers the pools, `payments.ok` the money. Repairable findings are repaired within seconds.",
    access=OPERATE,
    answers={200: Answers("The report", FullReconciliationOut)},
)
LIST_PARKED = _endpoint(
    "list_parked",
    "GET /v1/ops/parked",
    summary="What needs attention, and why",
    access=READ_OPERATE,
    query=ParkedQuery,
    answers={200: Answers("A page of parked items", ParkedPage)},
)
RETRY_ALL_PARKED = _endpoint(
    "retry_all_parked",
    "POST /v1/ops/parked/retry",
    summary="Retry everything of a kind",
    access=OPERATE,
    body=RetryIn,
    answers={200: Answers("How many", RetriedOut)},
)
RETRY_PARKED = _endpoint(
    "retry_parked",
    "POST /v1/ops/parked/{parked_id}/retry",
    summary="Retry an item from its current step",
    access=OPERATE,
    answers={204: Answers("It is being retried")},
    problems=(problems.PARKED_NOT_FOUND,),
)
DROP_PARKED = _endpoint(
    "drop_parked",
    "POST /v1/ops/parked/{parked_id}/drop",
    summary="Discard an item, if no money was taken",
    description="A settlement returns its units, once it is certain that no money was taken or set aside for it.",
    access=OPERATE,
    answers={204: Answers("Discarded")},
    problems=(problems.PARKED_NOT_FOUND, problems.MONEY_IS_OUT, APPROVAL_REQUIRED),
)
COMPENSATE = _endpoint(
    "compensate",
    "POST /v1/ops/sales/{sale_id}/compensate",
    summary="Report that more was sold than can be delivered, and apply the sale's policy",
    description="`cancel_last` cancels and refunds the newest orders, but more than `review_above_percent` "
    "only with `approved`; `fulfil_first` uses `buffer_units` and flags the rest, because their units "
    "have to be sourced; `report` only counts the missing units. The number is stored and checked again "
    "automatically: later orders are treated the same way, and flags are removed once enough can be delivered. "
    "Free units beyond it leave the pool.",
    access=MONEY,
    body=CompensateIn,
    answers={200: Answers("What was done", CompensationOut)},
    problems=(problems.SALE_NOT_FOUND, APPROVAL_REQUIRED),
)
GET_AUDIT = _endpoint(
    "get_audit",
    "GET /v1/ops/audit",
    summary="What happened to a buyer, refusals included",
    description="The latest moments in order: joins, calls, passes and leaves, refusals, and everything that happened "
    "to the buyer's reservations; and one sentence about them.\n\n"
    "Refusals of this server appear up to 100 ms after they were sent, those of other servers after a second or two.",
    access=READ_OPERATE,
    query=AuditQuery,
    answers={200: Answers("The timeline", TimelineOut)},
    problems=(problems.BUSY,),
    is_optional=True,
)
GET_LIVE = _endpoint(
    "get_live",
    "GET /v1/ops/sales/{sale_id}/live",
    summary="Live figures of a sale, to poll every second",
    description=(
        "Computed at most twice a second for all callers. Counts cover all server processes since the pool was created."
    ),
    access=READ_OPERATE,
    # Used by a few operators, mostly under load; they share a cached result.
    priority=Priority.FINISH,
    answers={200: Answers("The sale's figures", LiveOut)},
    problems=(problems.SALE_NOT_FOUND,),
)
GET_SALE_HISTORY = _endpoint(
    "get_sale_history",
    "GET /v1/ops/sales/{sale_id}/history",
    summary="The history of a sale: its counts, and operators' actions",
    description=(
        "At most 600 spans of equal length, of a second or more; computed at most once a second for all callers. "
        "The first and the last hour are stored by the second, the rest by the minute, and by ten minutes after a "
        "day. Counts cover all server processes."
    ),
    access=READ_OPERATE,
    query=HistoryQuery,
    answers={200: Answers("The history", SaleHistoryOut)},
    problems=(problems.SALE_NOT_FOUND,),
)
GET_FUNNEL = _endpoint(
    "get_funnel",
    "GET /v1/ops/sales/{sale_id}/funnel",
    summary="The conversion funnel of a sale, and why visitors were refused",
    description=(
        "From the files of the click stream on this host (`HOLDFAST_CLICKS_TO`), computed at most every 5 s. "
        "`enabled` is false if there are no files."
    ),
    access=READ_OPERATE,
    answers={200: Answers("The funnel", FunnelOut)},
    problems=(problems.SALE_NOT_FOUND,),
)
GET_HEALTH = _endpoint(
    "get_health",
    "GET /v1/ops/health",
    summary="The state of each dependency",
    description="As of the last heartbeats, seconds ago; payment providers as of the last payments.",
    access=READ_OPERATE,
    answers={200: Answers("The dependencies", SystemHealthOut)},
)
LIST_KEYS = _endpoint(
    "list_keys",
    "GET /v1/ops/keys",
    summary="List service keys, revoked ones included",
    description="The admin key is not among them: it is a setting.",
    access=ADMIN,
    answers={200: Answers("The keys", ServiceKeyList)},
)
CREATE_KEY = _endpoint(
    "create_key",
    "POST /v1/ops/keys",
    summary="Create a service key",
    description="The key itself is only in this response. A caller can only grant scopes it has.",
    access=ADMIN,
    body=KeyIn,
    answers={201: Answers("The new key", NewServiceKeyOut)},
    if_unknown=IfUnknown.CHECK_KEYS,
)
REVOKE_KEY = _endpoint(
    "revoke_key",
    "DELETE /v1/ops/keys/{key_id}",
    summary="Revoke a service key",
    description=(
        "Also revokes the keys it created and the sessions started with them. Every server refuses them from the "
        "next request on. A repeat returns 204."
    ),
    access=ADMIN,
    answers={204: Answers("Revoked")},
    problems=(problems.KEY_NOT_FOUND,),
)
