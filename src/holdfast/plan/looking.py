"""How often people look: at the line while they wait in it, and at their payment while it is under way."""

from holdfast.domain.room import poll_in_line_ms

_SOONEST_POLL_MS = 2_000
# What is looked at is up to a second old at the edge, half a second at the server, a quarter where it looks itself.
SEEN_LATE_S = 1.75
# Looks are between one and two intervals apart, so whoever is called looks again after 0.78 of one on average.
_NEXT_LOOK = 1.55
LOOKS_APART = 1.5
# Who waits for a payment looks after half a second, then each time half as long again, and every four seconds in the
# end, as people in a rush do (rush/till.py): so after as long as half of what they have waited, and a moment.
_FIRST_WATCH_S, _LATEST_WATCH_S = 0.5, 4.0


def poll_s(waiting: int, pass_s: float) -> float:
    return poll_in_line_ms(_SOONEST_POLL_MS, waiting, int(pass_s)) / 1_000


def next_look_s(poll_s: float, waited_s: float) -> tuple[float, float]:
    """How long and how soon it may be until those who are called see it. Who joined a moment ago has looked then, and
    looks again after one to two intervals; the others any time."""
    if waited_s >= poll_s:
        return poll_s * _NEXT_LOOK + SEEN_LATE_S, 0.0
    soonest_s = poll_s - waited_s
    return poll_s + max(SEEN_LATE_S - soonest_s, 0.0) / 2, soonest_s


def watch_every_s(waited_s: float) -> float:
    return min(_FIRST_WATCH_S + waited_s / 2, _LATEST_WATCH_S)
