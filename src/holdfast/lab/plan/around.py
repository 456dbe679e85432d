"""The infrastructure around a sale's servers: CDN, broker, consumers, replicas, and how many such sales one database
can carry.

These are derived from the forecast by multiplication, with at most one measured figure each. None was validated against
a rush.
"""

from math import ceil

from msgspec import Struct

from holdfast.lab.plan.capacity import orders_of_worker
from holdfast.lab.plan.facts import Payment
from holdfast.lab.plan.plan import Plan

# One message in the broker, with its envelope and key.
MESSAGE_BYTES = 500
# Per buyer, up to the cart: view, join, pass, attempt, pay or leave.
CLICKS_EACH = 5
# Per cart: created, settling, confirmed, and its order's pending and confirmed.
EVENTS_EACH = 5
# The default number of partitions of the intents topic (docs/STREAMS.md).
PARTITIONS = 12
# The maximum for a first visit of the store (tests/browser/test_store_budget.py).
PAGE_REQUESTS, PAGE_BYTES = 6, 60_000
# A cached `now` with its headers.
LOOK_BYTES = 700


class Prices(Struct, frozen=True):
    """The prices of a CDN, in any currency. The defaults are an example, not an offer."""

    per_million_requests: float = 0.6
    per_gigabyte: float = 0.05


class Need(Struct, frozen=True):
    name: str
    value: str
    amount: float
    unit: str
    follows_from: str


def around(plan: Plan, prices: Prices) -> list[Need]:
    return [*_cdn(plan, prices), _broker(plan), *_consumers(plan), _replicas(plan), _cells(plan)]


def _cdn(plan: Plan, prices: Prices) -> list[Need]:
    if not plan.facts.has_edge:
        return []
    polls = sum(snapshot.looks for snapshot in plan.snapshots)
    requests = polls + plan.facts.users * PAGE_REQUESTS
    gigabytes = (polls * LOOK_BYTES + plan.facts.users * PAGE_BYTES) / 1e9
    cost = requests / 1e6 * prices.per_million_requests + gigabytes * prices.per_gigabyte
    derived = (
        f"{polls:,} polls and {PAGE_REQUESTS} requests for the page of each person: {requests / 1e6:,.1f} million, "
        f"{gigabytes:,.1f} GB; {prices.per_million_requests:g} per million, {prices.per_gigabyte:g} per GB"
    )
    return [Need("CDN", f"costs {cost:,.2f}", cost, "price", derived)]


def _broker(plan: Plan) -> Need:
    grants = sum(snapshot.grants for snapshot in plan.snapshots)
    messages = plan.facts.users * CLICKS_EACH + grants * EVENTS_EACH
    megabytes = messages * MESSAGE_BYTES / 1e6
    step_s = plan.snapshots[0].at_s if plan.snapshots else 1.0
    most = max((snapshot.came for snapshot in plan.snapshots), default=0) / step_s * 2
    derived = (
        f"{plan.facts.users:,} people with {CLICKS_EACH} clicks and {grants:,} carts with {EVENTS_EACH} events, "
        f"{MESSAGE_BYTES} B each; at most {most * MESSAGE_BYTES / 1e6:,.1f} MB/s, when people view and join; "
        "times the replicas of a topic"
    )
    return Need("broker", f"{megabytes:,.0f} MB", megabytes, "MB", derived)


def _consumers(plan: Plan) -> list[Need]:
    facts = plan.facts
    if facts.payment is Payment.EXTERNAL:
        return []
    each, count = orders_of_worker(facts, plan.figures), max(plan.deployment.workers, 1)
    orders = plan.outcome.sold / facts.quantity
    derived = (
        f"{orders:,.0f} orders at once ÷ {each * count:,.0f}/s; with Kafka up to {PARTITIONS} consumers share them, "
        f"one for each partition: {orders / (each * PARTITIONS):,.1f} s if the ledger keeps up"
    )
    drain_s = orders / (each * count)
    return [Need("consumers", f"{count}, {drain_s:,.1f} s to settle all", drain_s, "s", derived)]


def _replicas(plan: Plan) -> Need:
    """Buyers' reads of their own reservations and orders. Polls of `now` do not reach the database."""
    step_s = plan.snapshots[0].at_s if plan.snapshots else 1.0
    reads = max((one.watches + one.receipts for one in plan.snapshots), default=0) / step_s
    one = plan.figures.watch
    needed = 0 if plan.facts.engine == "sqlite" else ceil(reads / (one.per_second * (1 - plan.headroom))) - 1
    derived = (
        f"at most {reads:,.0f} reads/s; beyond what one server process reads, {one.per_second:,.0f}/s, one for each"
    )
    return Need("replicas", str(max(needed, 0)), max(needed, 0), "replicas", derived)


def _cells(plan: Plan) -> Need:
    """The tiers within one database: queues and pools share it, whatever is scaled elsewhere."""
    stores = [tier for tier in plan.tiers if tier.name in ("PostgreSQL", "gate", "Redis")]
    busiest = max(stores, key=lambda tier: tier.used)
    at_once = max(int((1 - plan.headroom) / busiest.used), 1) if busiest.used else 1
    derived = f"{busiest.name} is at {busiest.used:.0%} in this sale; a cell for every {at_once:,} that run at once"
    return Need("cells", f"1 for {at_once:,} such sales", at_once, "sales", derived)
