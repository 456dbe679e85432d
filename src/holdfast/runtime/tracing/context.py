"""Which trace the current work belongs to, as W3C Trace Context has it. Knows nothing of OpenTelemetry.

Only work that is traced has a context; everything else has none. A task inherits the context of its creator,
so what outlives a request is started with an empty one (`runtime/batching.py`).
"""

from contextvars import ContextVar, Token

from msgspec import Struct

TRACEPARENT = "traceparent"
_HEX = frozenset("0123456789abcdef")
_PART_LENGTHS = (2, 32, 16, 2)
_SAMPLED = 1


class TraceContext(Struct, frozen=True, gc=False):
    """A span of a trace that is recorded."""

    trace_id: str
    span_id: str

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


class Given(Struct, frozen=True):
    """What a caller sent, and whether it records the trace."""

    context: TraceContext
    is_sampled: bool


_current: ContextVar[TraceContext | None] = ContextVar("holdfast_trace", default=None)
current_trace = _current.get


def enter_trace(context: TraceContext) -> "Token[TraceContext | None]":
    return _current.set(context)


leave_trace = _current.reset


def read_traceparent(text: str) -> Given | None:
    """None if it is invalid. Parts that later versions add are ignored, as the standard requires."""
    parts = text.split("-")
    if len(parts) < 4 or (parts[0] == "00" and len(parts) > 4) or parts[0] == "ff":
        return None
    for part, length in zip(parts, _PART_LENGTHS, strict=False):
        if len(part) != length or not _HEX.issuperset(part):
            return None
    _, trace_id, span_id, flags, *_ = parts
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return Given(TraceContext(trace_id, span_id), bool(int(flags, 16) & _SAMPLED))


def stored_context(traceparent: str | None) -> TraceContext | None:
    """What was stored of a trace that is recorded."""
    given = None if traceparent is None else read_traceparent(traceparent)
    return None if given is None else given.context
