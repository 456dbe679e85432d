"""What waits for a second operator."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import Limit, Timestamp
from holdfast.ledger.access.approvals import Approval, ApprovalState


class ApprovalQuery(Struct, frozen=True, forbid_unknown_fields=True):
    state: ApprovalState | None = None
    limit: Limit = 20


class ApprovalOut(Struct, frozen=True):
    approval_id: str
    action: Annotated[str, Meta(description="The operation, as in `close_sale`.")]
    subject: Annotated[str | None, Meta(description="As in `sale:lamp`.")]
    request: Annotated[Any, Meta(description="The request body; null once it is decided or has expired.")]
    requested_by_id: Annotated[str | None, Meta(description="Null for a key that no operator made.")]
    requested_by: str
    requested_at: Timestamp
    expires_at: Timestamp
    state: ApprovalState
    decided_by: Annotated[str | None, Meta(description="While pending: the first of two approvers.")]
    decided_at: Timestamp | None
    status: Annotated[
        int | None,
        Meta(description="The response's status once carried out. Null although approved: unknown; approve again."),
    ]
    reason: Annotated[str | None, Meta(description="Why carrying it out was refused.")]

    @classmethod
    def of(cls, approval: Approval) -> "ApprovalOut":
        asked = approval.asked
        sent = msgspec.json.decode(asked.body) if asked.body else None
        return copy_fields(cls, approval, action=asked.action, subject=asked.subject, request=sent)


class ApprovalList(Struct, frozen=True):
    data: list[ApprovalOut]
