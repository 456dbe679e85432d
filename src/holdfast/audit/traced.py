"""Refusals of a server with tracing: those of traced requests include the trace ID."""

from typing import Any

from holdfast.audit.recorder import Recorder
from holdfast.runtime.tracing.context import current_trace


class TracedRecorder(Recorder):
    def note_reason(self, *facts: Any, **more: Any) -> None:
        trace = current_trace()
        if trace is not None:
            more["trace_id"] = trace.trace_id
        super().note_reason(*facts, **more)
