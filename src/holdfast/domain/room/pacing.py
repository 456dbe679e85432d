"""Why the line moves at its current pace, as one word for the operator."""

from enum import StrEnum

from holdfast.domain.room.pace import DEFAULT_LIMITS, room_for
from holdfast.domain.room.room import RoomState


class Pacing(StrEnum):
    """In order of precedence."""

    NOT_OPEN = "not_open"
    PAUSED = "paused"
    LINE_EMPTY = "line_empty"
    STOCK = "stock"
    GATE_SLOW = "gate_slow"
    SETTLEMENT_SLOW = "settlement_slow"
    RECOVERING = "recovering"
    TARGET = "target"


def why(room: RoomState) -> Pacing:
    if room.advancer_state is None:
        return Pacing.NOT_OPEN
    pace, seen = room.advancer_state.pace, room.advancer_state.seen
    if pace.is_paused:
        return Pacing.PAUSED
    if room.waiting <= 0:
        return Pacing.LINE_EMPTY
    if room_for(pace, seen) <= 0:
        return Pacing.STOCK
    if seen.gate_latency_ms > DEFAULT_LIMITS.gate_latency_ms:
        return Pacing.GATE_SLOW
    if seen.settlement_lag_ms > DEFAULT_LIMITS.settlement_lag_ms:
        return Pacing.SETTLEMENT_SLOW
    return Pacing.RECOVERING if pace.rate_per_second < pace.target_per_second else Pacing.TARGET
