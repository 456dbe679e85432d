"""Structured logs: one JSON object per line on stderr, or readable columns when a person is watching.

A line that cannot be written (full disk, closed pipe) is lost without further effect: it must not turn a durable
result into a failure, nor end the work that logged it.
"""

import logging
import sys
import warnings
from contextlib import suppress
from typing import TextIO

import structlog

from holdfast.errors import EngineError
from holdfast.runtime.tracing.context import current_trace

CLIENT_TEXT_MAX = 200


class Lossy:
    """A stream for a logger that never fails. A closed stream raises ValueError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def set_up_logging(level: str) -> None:
    readable = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_trace,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if readable else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(Lossy(sys.stderr)),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
    warnings.showwarning = _log_warning  # type: ignore[assignment]


def _add_trace(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    trace = current_trace()
    if trace is not None:
        line["trace_id"] = trace.trace_id
    return line


def _log_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    """Libraries warn on stderr in plain text, which would break a log of JSON lines."""
    structlog.get_logger().warning(
        "python_warning", kind=category.__name__, text=str(message), at=f"{filename}:{lineno}"
    )


def printable(text: str) -> str:
    """A client's text for the log: truncated, and without control characters, which a terminal would interpret."""
    text = text[:CLIENT_TEXT_MAX]
    return text if text.isprintable() else text.encode("unicode_escape").decode()[:CLIENT_TEXT_MAX]


def log_failure(event: str, exc: Exception, **facts: object) -> None:
    """An unavailable engine is logged as a warning; anything else is a defect and is logged with its traceback."""
    if isinstance(exc, EngineError):
        structlog.get_logger().warning(event, error=str(exc), **facts)
    else:
        structlog.get_logger().error(event, exc_info=exc, **facts)
