"""Structured logs: one JSON object per line on stderr, or readable columns when a person is watching.

A line that cannot be written (a full disk, a pipe nobody reads any more) is lost and does nothing else: it must not
turn an answer that is already on disk into a failure, nor end the work that wanted to tell of one.
"""

import logging
import sys
import warnings
from contextlib import suppress
from typing import TextIO

import structlog


class Lossy:
    """As much of a stream as a logger needs, without its failures. A closed stream says so by a ValueError."""

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


def _log_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    """Libraries warn on stderr in plain text, which would break a log of JSON lines."""
    structlog.get_logger().warning(
        "python_warning", kind=category.__name__, text=str(message), at=f"{filename}:{lineno}"
    )
