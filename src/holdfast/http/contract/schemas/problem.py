"""A problem, as the OpenAPI document describes it."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType


class InvalidField(Struct, frozen=True):
    field: Annotated[str, Meta(description="Its name, or `body` if it is about the whole.")]
    message: str


class ProblemOut(Struct, frozen=True):
    """RFC 9457, with a stable `reason`; members that help are added (`available`, `retry_after_ms`, …)."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    retryable: Annotated[
        bool, Meta(description="Whether the very same request may succeed later, with nothing else done.")
    ]
    trace_id: Annotated[str | UnsetType, Meta(description="Of the request's trace, if it was traced.")] = UNSET
    errors: Annotated[list[InvalidField], Meta(description="What is wrong with the request, field by field.")] = []
