"""When to resend a message that was not accepted."""

from collections.abc import Sequence

from holdfast.ledger.messages.message_log import Outcome
from holdfast.runtime.backoff import jittered

# Delays between attempts, after temporary rejections (greylisting, full mailboxes, limits).
DELAYS_S: tuple[float, ...] = (30, 120, 600, 1_800, 3_600, 7_200)
_JITTER = 0.2


def due_again(outcome: Outcome, now: int, delays_s: Sequence[float], asked_s: float = 0.0) -> Outcome:
    """`asked_s`: the delay that the receiver asked for."""
    if outcome.state != "waiting" or not outcome.is_attempt:
        return outcome
    attempts = outcome.message.attempts
    if attempts >= len(delays_s):
        return Outcome(outcome.message, "failed", outcome.reason)
    pause_s = max(jittered(delays_s[attempts], _JITTER), asked_s)
    return Outcome(outcome.message, "waiting", outcome.reason, now + round(pause_s * 1000))
