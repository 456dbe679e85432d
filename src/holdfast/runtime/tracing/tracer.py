"""The interface of a tracer. `otel.py` implements it, and is imported only if traces are on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Protocol

from holdfast.runtime.tracing.context import TraceContext, enter_trace, leave_trace

Attributes = Mapping[str, str | int | float | bool]
NO_ATTRIBUTES: Attributes = {}


class Kind(Enum):
    INTERNAL = auto()
    SERVER = auto()
    CLIENT = auto()
    PRODUCER = auto()


class Span(Protocol):
    context: TraceContext

    def note(self, name: str, value: str | float | bool) -> None:
        """Add an attribute."""

    def fail(self, reason: str) -> None:
        """Mark it as failed."""

    def end(self, at_ns: int | None = None) -> None: ...


class Tracer(Protocol):
    def start(
        self,
        name: str,
        parent: TraceContext | None,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        kind: Kind = Kind.INTERNAL,
        links: Sequence[TraceContext] = (),
        at_ns: int | None = None,
    ) -> Span:
        """A span that lasts until it is ended, from now or from `at_ns` (since 1970)."""


@contextmanager
def spanning(
    tracer: Tracer,
    name: str,
    parent: TraceContext | None,
    attributes: Attributes = NO_ATTRIBUTES,
    *,
    kind: Kind = Kind.INTERNAL,
    links: Sequence[TraceContext] = (),
) -> Iterator[Span]:
    """A span for a piece of work, which belongs to it. It has failed if the work raises."""
    span = tracer.start(name, parent, attributes, kind=kind, links=links)
    token = enter_trace(span.context)
    try:
        yield span
    except BaseException as exc:
        span.fail(type(exc).__name__)
        raise
    finally:
        leave_trace(token)
        span.end()
