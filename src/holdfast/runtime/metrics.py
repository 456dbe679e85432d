"""Metrics for Prometheus.

Hot paths count per batch, never per request. With several server processes the values are in files that every process
writes (prometheus_client's multiprocess mode), so gauges say how they are merged.
"""

from bisect import bisect_left
from functools import cache
from time import time

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.samples import Exemplar

from holdfast.runtime import counters
from holdfast.runtime.breaker import Breaker, Circuit

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

AGENT_LAST_SUCCESS = Gauge(
    "holdfast_agent_last_success_timestamp_seconds", "When a background agent last completed a pass, by agent.",
    ["agent"], multiprocess_mode="livemin",
)  # fmt: skip
AGENT_FAILURES = Counter("holdfast_agent_failures", "Passes of background agents that failed, by agent.", ["agent"])
BATCH_SIZE = Histogram(
    "holdfast_batch_commands", "Commands decided together.", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
)
STREAM_LAG = Gauge(
    "holdfast_stream_lag_events", "Events that were not published to the stream yet.", ["stream"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
STREAM_OLDEST_SECONDS = Gauge(
    "holdfast_stream_oldest_seconds", "How long the oldest event has waited to be published to the stream.", ["stream"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
REPLICA_LAG_SECONDS = Gauge(
    "holdfast_replica_lag_seconds", "How far a read replica of the ledger is behind its primary.", ["replica"],
    multiprocess_mode="livemax",
)  # fmt: skip
REPLICA_FIT = Gauge(
    "holdfast_replica_fit", "1 if a read replica is used, 0 if it lags, does not answer or is no replica.", ["replica"],
    multiprocess_mode="livemin",
)  # fmt: skip
LEDGER_READS = Counter(
    "holdfast_ledger_reads", "Reads that a replica could do, by who did them: replica or primary.", ["source"]
)
CLICKS = Counter("holdfast_clicks", "Clicks of the click stream, by result: written or dropped.", ["result"])
INTENTS = Counter("holdfast_intents", "Settlement intents consumed from Kafka, by result.", ["result"])
STREAM_PUBLISHED = Counter("holdfast_stream_published", "Messages published, by topic.", ["topic"])
WAITING = Gauge("holdfast_waiting_commands", "Commands waiting for a batch.", multiprocess_mode="livesum")
DECIDE_SECONDS = Histogram("holdfast_decide_seconds", "Time the rulebook took for one batch.", buckets=_SECONDS)
COMMIT_SECONDS = Histogram(
    "holdfast_commit_seconds", "Time from handing a batch to the engine until it was durable.", buckets=_SECONDS
)
EXPIRED_UNITS = Counter("holdfast_expired_units", "Units the background work returned after their deadline.")
OUTCOMES = Counter("holdfast_outcomes", "Commands by outcome.", ["outcome"])
DROPPED = Counter("holdfast_dropped", "Commands dropped before they were decided, by reason.", ["reason"])
ENGINE_FAILURES = Counter("holdfast_engine_failures", "Batches without a verdict, by kind of failure.", ["kind"])
POOL_UNITS = Gauge(
    "holdfast_pool_units", "Units by state. The three add up to the total.", ["sku_id", "state"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
POOL_ACTIVE = Gauge(
    "holdfast_pool_active_reservations", "Reservations that are active.", ["sku_id"], multiprocess_mode="livemostrecent"
)
EXPIRER_LAG_SECONDS = Gauge(
    "holdfast_expirer_lag_seconds", "How long the longest overdue reservation has waited for its units to return.",
    multiprocess_mode="livemostrecent",
)  # fmt: skip
JOURNAL_LAG_ENTRIES = Gauge(
    "holdfast_journal_lag_entries", "Journal entries of a gate in Redis that the ledger does not have yet.", ["sku_id"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
JOURNAL_ENTRIES = Counter("holdfast_journal_entries", "Journal entries copied into the ledger.")
POOL_DRIFT = Gauge(
    "holdfast_pool_drift", "1 if the last check found gate and ledger inconsistent.", ["sku_id"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
REBUILDS = Counter("holdfast_pool_rebuilds", "Pools rebuilt in Redis from the ledger, by reason.", ["why"])
REBUILD_SECONDS = Histogram("holdfast_pool_rebuild_seconds", "Time a rebuilt pool was closed.", buckets=_SECONDS)
REFUSALS_RECORDED = Counter("holdfast_refusals_recorded", "Refusals written to the audit's segments.")
REFUSALS_DROPPED = Counter("holdfast_refusals_dropped", "Refusals that could not be written to the audit's segments.")
WEBHOOK_UNRELAYED = Gauge(
    "holdfast_webhook_unrelayed_events", "Events not yet relayed to the webhook that is furthest behind.",
    multiprocess_mode="livemostrecent",
)  # fmt: skip
WEBHOOK_BACKLOG = Gauge(
    "holdfast_webhook_backlog", "Deliveries that wait to be sent or retried.", ["webhook_id"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
WEBHOOK_OLDEST_SECONDS = Gauge(
    "holdfast_webhook_oldest_seconds", "How long the oldest delivery has waited.", ["webhook_id"],
    multiprocess_mode="livemostrecent",
)  # fmt: skip
WEBHOOK_ATTEMPTS = Counter(
    "holdfast_webhook_attempts", "Deliveries sent, by result: done, waiting (failed, to be retried) or parked.",
    ["webhook_id", "state"],
)  # fmt: skip
REQUESTS = Counter("holdfast_http_requests", "Requests answered, by status.", ["status"])
HTTP_SECONDS = Histogram(
    "holdfast_http_request_seconds", "Time to answer, by endpoint and class of status. Streams: until they began.",
    ["endpoint", "code"], buckets=_SECONDS,
)  # fmt: skip
SETTLED = Counter("holdfast_settled", "Settlements by provider and outcome.", ["provider", "outcome"])
SETTLEMENT_BACKLOG = Gauge(
    "holdfast_settlement_backlog", "Reservations that wait for their payment to be settled.",
    multiprocess_mode="livemostrecent",
)  # fmt: skip
SETTLEMENT_OLDEST_SECONDS = Gauge(
    "holdfast_settlement_oldest_seconds", "How long the oldest of them has waited.", multiprocess_mode="livemostrecent"
)
PARKED = Gauge("holdfast_parked", "Items that need attention.", ["kind"], multiprocess_mode="livemostrecent")
BREAKER = Gauge(
    "holdfast_breaker_open", "1 if calls are refused because it does not answer, 0.5 while it is probed.",
    ["dependency"], multiprocess_mode="livemax",
)  # fmt: skip
CHECK_PASSES = Gauge(
    "holdfast_check_passes", "1 if a check of `/healthz/ready` passes.", ["check"], multiprocess_mode="livemin"
)
SHED = Counter("holdfast_shed", "Requests refused under load, by priority.", ["priority"])
IN_FLIGHT = Gauge(
    "holdfast_requests_in_flight", "Requests being answered, sampled a few times a second.", multiprocess_mode="livesum"
)
CONCURRENCY_LIMIT = Gauge(
    "holdfast_concurrency_limit", "Requests that may be in flight at once.", multiprocess_mode="livesum"
)
HOST_USAGE = Gauge(
    "holdfast_host_usage_ratio", "CPU and memory in use, as a part of what the container or host has.", ["resource"],
    multiprocess_mode="livemax",
)  # fmt: skip
FRONTS = Gauge("holdfast_fronts", "Processes that speak HTTP for this one.", multiprocess_mode="livesum")
RISK_CHECKS = Counter(
    "holdfast_risk_checks",
    "Joins by the risk service's verdict, or why they were allowed without one: `timeout`, `error`, `busy`, "
    "`breaker_open`.", ["result"],
)  # fmt: skip
CAPTCHA_CHECKS = Counter("holdfast_captcha_checks", "Captcha tokens, by the service's answer.", ["result"])
LIMITED = Counter("holdfast_rate_limited", "Requests refused by a rate limit, by policy.", ["policy"])
_answered: dict[int, int] = {}
# Of an endpoint, by status: the sum of the seconds, then a count for each bucket and one beyond the last.
Timings = dict[int, list[float]]
_timings: dict[str, Timings] = {}
_ROW = len(_SECONDS) + 2
_exemplars: dict[tuple[str, int], Exemplar] = {}
_outcomes: dict[str, int] = {}
_shed: dict[str, int] = {}
_limited: dict[str, int] = {}


def count_request(status: int) -> None:
    """Counts in a plain dictionary first: the Prometheus counter takes a lock, and this is called for every request."""
    _answered[status] = _answered.get(status, 0) + 1


def timings_of(endpoint: str) -> Timings:
    return _timings.setdefault(endpoint, {})


def time_request(timings: Timings, status: int, seconds: float) -> None:
    """Counts it too. A Prometheus histogram would cost more than many requests do."""
    row = timings.get(status)
    if row is None:
        row = timings[status] = [0.0] * _ROW
    row[0] += seconds
    row[bisect_left(_SECONDS, seconds) + 1] += 1


def _flush_timings() -> None:
    for endpoint, timings in _timings.items():
        while timings:
            status, (total, *buckets) = timings.popitem()
            REQUESTS.labels(status).inc(sum(buckets))
            histogram = HTTP_SECONDS.labels(endpoint, f"{status // 100}xx")
            # What `observe` does, for many at once; there is no public way.
            histogram._sum.inc(total)  # noqa: SLF001 - see above
            for bucket, count in zip(histogram._buckets, buckets, strict=True):  # noqa: SLF001 - see above
                if count:
                    bucket.inc(count)


def note_exemplar(endpoint: str, status: int, seconds: float, trace_id: str) -> None:
    """A traced request, to show beside the bucket of the histogram that it is in."""
    _exemplars[endpoint, status // 100] = Exemplar({"trace_id": trace_id}, seconds, time())


def _flush_exemplars() -> None:
    while _exemplars:
        (endpoint, kind), exemplar = _exemplars.popitem()
        histogram = HTTP_SECONDS.labels(endpoint, f"{kind}xx")
        # `observe` would count it again.
        histogram._buckets[bisect_left(_SECONDS, exemplar.value)].set_exemplar(exemplar)  # noqa: SLF001


def count_outcome(outcome: str, number: int = 1) -> None:
    """Counts in a dictionary first, as `time_request` does."""
    _outcomes[outcome] = _outcomes.get(outcome, 0) + number


def count_drop(reason: str) -> None:
    DROPPED.labels(reason).inc()


def shed_total() -> int:
    """Requests that this process refused under load."""
    return sum(_shed.values())


def count_shed(priority: str) -> None:
    _shed[priority] = _shed.get(priority, 0) + 1


def count_limited(policy: str) -> None:
    _limited[policy] = _limited.get(policy, 0) + 1


def flush_outcomes() -> None:
    """After each batch, so that other processes see its outcomes; those answered from the cache wait for `flush`."""
    while _outcomes:
        outcome, count = _outcomes.popitem()
        _counter_of(outcome).inc(count)


@cache
def _counter_of(outcome: str) -> Counter:
    """To find it takes longer than to count with it."""
    return OUTCOMES.labels(outcome)


def flush() -> None:
    """Update the Prometheus counters: several times a second, and before each scrape."""
    flush_outcomes()
    _flush_timings()
    _flush_exemplars()
    while _answered:
        status, count = _answered.popitem()
        REQUESTS.labels(status).inc(count)
    for name, counts, counter in (("shed", _shed, SHED), ("limited", _limited, LIMITED)):
        while counts:
            label, count = counts.popitem()
            counter.labels(label).inc(count)
            counters.count(counters.SERVER, f"{name}.{label}", count)


_OPENNESS = {Circuit.CLOSED: 0.0, Circuit.HALF_OPEN: 0.5, Circuit.OPEN: 1.0}


def show_breaker(breaker: Breaker) -> None:
    BREAKER.labels(breaker.name).set(_OPENNESS[breaker.state])
