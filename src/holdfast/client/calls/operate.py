# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `operate`."""

from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.operate import (
    Compensation,
    Features,
    FullReconciliation,
    Health,
    Lags,
    ParkedPage,
    Pools,
    Ready,
    Retried,
    Timeline,
)
from holdfast.client.types.operate_2 import (
    Funnel,
    Live,
    NewServiceKey,
    SaleHistory,
    Scope,
    ServiceKeyList,
    SystemHealth,
)


def live() -> Call[Health]:
    """The process runs."""
    return Call(
        method="GET",
        path="/healthz/live",
        answers={200: (Health,)},
    )


def ready() -> Call[Ready]:
    """Readiness: can sales be served?."""
    return Call(
        method="GET",
        path="/healthz/ready",
        answers={200: (Ready,)},
    )


def metrics() -> Call[str]:
    """Metrics for Prometheus."""
    return Call(
        method="GET",
        path="/metrics",
        answers={200: (str,)},
    )


def get_features() -> Call[Features]:
    """What is on, and what is off right now.

    Lets a shop turn off its own optional features under load. Cacheable for two seconds. `selling`, `settling` and
    `joining` are what buyers need, as of the last heartbeats; all others are turned off under load.
    """
    return Call(
        method="GET",
        path="/v1/features",
        answers={200: (Features,)},
    )


def get_lag() -> Call[Lags]:
    """How far background work is behind.

    Read from the stores at most a second ago, so it is right even if no worker runs.
    """
    return Call(
        method="GET",
        path="/v1/ops/lag",
        answers={200: (Lags,)},
    )


def get_pools() -> Call[Pools]:
    """Consistency of every pool, within itself and between gate and ledger.

    From the last check, at most seconds ago. A pool that could not be checked is `check_overdue`.
    """
    return Call(
        method="GET",
        path="/v1/ops/pools",
        answers={200: (Pools,)},
    )


def reconcile() -> Call[FullReconciliation]:
    """Check every pool and every payment now.

    `ok` covers the pools, `payments.ok` the money. Repairable findings are repaired within seconds.
    """
    return Call(
        method="POST",
        path="/v1/ops/reconcile",
        answers={200: (FullReconciliation,)},
    )


def list_parked(
    *,
    kind: Literal["delivery", "journal", "message", "refund", "settlement"] | None = None,
    limit: int | UnsetType = UNSET,
    starting_after: str | None = None,
) -> Call[ParkedPage]:
    """What needs attention, and why."""
    return Call(
        method="GET",
        path="/v1/ops/parked",
        answers={200: (ParkedPage,)},
        query={"kind": optional(kind), "limit": limit, "starting_after": optional(starting_after)},
    )


def retry_all_parked(*, kind: Literal["delivery", "journal", "message", "refund", "settlement"]) -> Call[Retried]:
    """Retry everything of a kind."""
    return Call(
        method="POST",
        path="/v1/ops/parked/retry",
        answers={200: (Retried,)},
        body={"kind": kind},
    )


def retry_parked(parked_id: str) -> Call[None]:
    """Retry an item from its current step."""
    return Call(
        method="POST",
        path=path_of("/v1/ops/parked/{parked_id}/retry", parked_id),
        answers={204: ()},
    )


def drop_parked(parked_id: str) -> Call[None]:
    """Discard an item, if no money was taken.

    A settlement returns its units, once it is certain that no money was taken or set aside for it.
    """
    return Call(
        method="POST",
        path=path_of("/v1/ops/parked/{parked_id}/drop", parked_id),
        answers={204: ()},
    )


def compensate(
    sale_id: str, *, deliverable_units: int | None, approved: bool | UnsetType = UNSET
) -> Call[Compensation]:
    """Report that more was sold than can be delivered, and apply the sale's policy."""
    return Call(
        method="POST",
        path=path_of("/v1/ops/sales/{sale_id}/compensate", sale_id),
        answers={200: (Compensation,)},
        body={"deliverable_units": deliverable_units, "approved": approved},
    )


def get_audit(
    *,
    buyer_id: str,
    sale_id: str | None = None,
    sku_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int | UnsetType = UNSET,
) -> Call[Timeline]:
    """What happened to a buyer, refusals included.

    The latest moments in order: joins, calls, passes and leaves, refusals, and everything that happened to the
    buyer's reservations; and one sentence about them. Refusals of this server appear up to 100 ms after they were
    sent, those of other servers after a second or two.
    """
    return Call(
        method="GET",
        path="/v1/ops/audit",
        answers={200: (Timeline,)},
        query={
            "buyer_id": buyer_id,
            "sale_id": optional(sale_id),
            "sku_id": optional(sku_id),
            "since": optional(since),
            "until": optional(until),
            "limit": limit,
        },
    )


def get_live(sale_id: str) -> Call[Live]:
    """Live figures of a sale, to poll every second.

    Computed at most twice a second for all callers. Counts cover all server processes since the pool was created.
    """
    return Call(
        method="GET",
        path=path_of("/v1/ops/sales/{sale_id}/live", sale_id),
        answers={200: (Live,)},
    )


def get_sale_history(sale_id: str, *, window_seconds: int | None = None) -> Call[SaleHistory]:
    """The history of a sale: its counts, and operators' actions.

    At most 600 spans of equal length, of a second or more; computed at most once a second for all callers. The
    first and the last hour are stored by the second, the rest by the minute, and by ten minutes after a day.
    Counts cover all server processes.
    """
    return Call(
        method="GET",
        path=path_of("/v1/ops/sales/{sale_id}/history", sale_id),
        answers={200: (SaleHistory,)},
        query={"window_seconds": optional(window_seconds)},
    )


def get_funnel(sale_id: str) -> Call[Funnel]:
    """The conversion funnel of a sale, and why visitors were refused.

    From the files of the click stream on this host (`HOLDFAST_CLICKS_TO`), computed at most every 5 s. `enabled`
    is false if there are no files.
    """
    return Call(
        method="GET",
        path=path_of("/v1/ops/sales/{sale_id}/funnel", sale_id),
        answers={200: (Funnel,)},
    )


def get_health() -> Call[SystemHealth]:
    """The state of each dependency.

    As of the last heartbeats, seconds ago; payment providers as of the last payments.
    """
    return Call(
        method="GET",
        path="/v1/ops/health",
        answers={200: (SystemHealth,)},
    )


def list_keys() -> Call[ServiceKeyList]:
    """List service keys, revoked ones included.

    The admin key is not among them: it is a setting.
    """
    return Call(
        method="GET",
        path="/v1/ops/keys",
        answers={200: (ServiceKeyList,)},
    )


def create_key(*, name: str, scopes: list[Scope]) -> Call[NewServiceKey]:
    """Create a service key.

    The key itself is only in this response. A caller can only grant scopes it has.
    """
    return Call(
        method="POST",
        path="/v1/ops/keys",
        answers={201: (NewServiceKey,)},
        body={"name": name, "scopes": scopes},
        is_repeatable=False,
    )


def revoke_key(key_id: str) -> Call[None]:
    """Revoke a service key.

    Also revokes the keys it created and the sessions started with them. Every server refuses them from the next
    request on. A repeat returns 204.
    """
    return Call(
        method="DELETE",
        path=path_of("/v1/ops/keys/{key_id}", key_id),
        answers={204: ()},
    )
