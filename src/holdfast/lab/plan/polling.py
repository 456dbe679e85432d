"""How often buyers poll: the queue while they wait, and their payment during settlement."""

from holdfast.domain.room.room import poll_in_line_ms

_SOONEST_POLL_MS = 2_000
# The response is up to 1 s old at the edge, 0.5 s at the server, and 0.25 s behind the database.
SEEN_LATE_S = 1.75
# Polls are one to two intervals apart, so a called buyer polls 0.78 intervals later on average.
_NEXT_LOOK = 1.55
LOOKS_APART = 1.5
# A buyer polls their payment after half a second, then at intervals that grow by 1.5 up to four seconds
# (rush/buyers/checkout.py): about half of the time they have waited so far.
_FIRST_WATCH_S, _LATEST_WATCH_S = 0.5, 4.0


def poll_interval_s(waiting: int, pass_s: float) -> float:
    return poll_in_line_ms(_SOONEST_POLL_MS, waiting, int(pass_s)) / 1_000


def next_poll_s(poll_interval_s: float, waited_s: float) -> tuple[float, float]:
    """The latest and earliest time until called buyers notice. A buyer who joined recently polled at that moment, and
    polls again after one to two intervals; for the others the next poll may be at any time."""
    if waited_s >= poll_interval_s:
        return poll_interval_s * _NEXT_LOOK + SEEN_LATE_S, 0.0
    soonest_s = poll_interval_s - waited_s
    return poll_interval_s + max(SEEN_LATE_S - soonest_s, 0.0) / 2, soonest_s


def payment_poll_interval_s(waited_s: float) -> float:
    return min(_FIRST_WATCH_S + waited_s / 2, _LATEST_WATCH_S)
