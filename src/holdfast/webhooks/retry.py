"""What a response means for a delivery: done, retry later, or park."""

from collections.abc import Sequence

from holdfast.ledger.events.deliveries import Delivery, Result
from holdfast.runtime.backoff import jittered
from holdfast.webhooks.sender import Answer

# Between one attempt and the next: quick enough for a restart, and about a day in all for an outage.
DELAYS_S: tuple[float, ...] = (1, 5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 21_600, 28_800)
# A receiver may ask for more time, within reason.
RETRY_AFTER_MAX_S = 3_600.0
JITTER = 0.2

GONE = 410


def judge(delivery: Delivery, answer: Answer, now: int, delays_s: Sequence[float] = DELAYS_S) -> Result:
    attempt, attempts = answer.attempt, delivery.attempts + 1
    if attempt.status is not None and 200 <= attempt.status < 300:
        return Result(delivery, attempt, "done", now, attempts=attempts)
    reason = attempt.error or f"http_{attempt.status}"
    if attempt.status == GONE:
        # Not counted as an attempt: it continues if the webhook is enabled again.
        return Result(delivery, attempt, "waiting", now, reason, delivery.attempts, gone=True)
    if attempts > len(delays_s):
        return Result(delivery, attempt, "parked", now, reason, attempts)
    pause_s = jittered(delays_s[attempts - 1], JITTER)
    asked_s = min(answer.retry_after_s or 0.0, RETRY_AFTER_MAX_S)
    return Result(delivery, attempt, "waiting", now + round(max(pause_s, asked_s) * 1000), reason, attempts)
