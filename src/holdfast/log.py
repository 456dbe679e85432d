"""Structured logs: one JSON object per line on stderr, or readable columns when a person is watching."""

import logging
import sys
import warnings

import structlog


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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    warnings.showwarning = _log_warning  # type: ignore[assignment]


def _log_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    """Libraries warn on stderr in plain text, which would break a log of JSON lines."""
    structlog.get_logger().warning(
        "python_warning", kind=category.__name__, text=str(message), at=f"{filename}:{lineno}"
    )
