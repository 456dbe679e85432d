"""A problem, as the OpenAPI document describes it."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType


class InvalidField(Struct, frozen=True):
    field: Annotated[str, Meta(description="Its name, or `body` if the error concerns the whole body.")]
    message: str


class ProblemOut(Struct, frozen=True):
    """RFC 9457, with a stable `reason`; members that help are added (`available`, `retry_after_ms`, …)."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    retryable: Annotated[
        bool, Meta(description="Whether the identical request may succeed later without any other action.")
    ]
    trace_id: Annotated[str | UnsetType, Meta(description="The ID of the request's trace, if it was traced.")] = UNSET
    errors: Annotated[list[InvalidField], Meta(description="The errors in the request, by field.")] = []
