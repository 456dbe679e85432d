"""One kind of answer for every refusal and failure: application/problem+json (RFC 9457) with a stable `reason`."""

import random
from typing import Any

import msgspec
from msgspec import Struct

MEDIA_TYPE = "application/problem+json"
NO_STORE = ("cache-control", "no-store")
NOSNIFF = ("x-content-type-options", "nosniff")
HEAD = (("content-type", MEDIA_TYPE), NO_STORE, NOSNIFF)
# Answers with these statuses carry `Retry-After`.
RETRY_LATER = frozenset({429, 503})


class ProblemKind(Struct, frozen=True, kw_only=True):
    """An entry of the catalogue. Codes, statuses and `retryable` are stable; the words are for people."""

    reason: str
    status: int
    title: str
    # What happened, unless the code that refuses passes more details.
    detail: str
    # What the caller should do.
    action: str = ""
    # Whether the identical request may succeed later without any other action by the caller.
    retryable: bool = False

    def document(self, **more: Any) -> dict[str, Any]:
        """The response body; `more` has details of this refusal."""
        return {
            "type": f"urn:holdfast:{self.reason}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "reason": self.reason,
            "retryable": self.retryable,
        } | more

    @property
    def anchor(self) -> str:
        """The anchor of its row on the reference page."""
        return f"problem-{self.reason}"


class Problem(Exception):
    """Raise it, or encode it. `retryable` overrides that of its kind where the gate's outcome says more. `is_recorded`:
    the audit has the refusal already."""

    is_recorded = False

    def __init__(
        self, kind: ProblemKind, detail: str | None = None, *, retryable: bool | None = None, **members: Any
    ) -> None:
        super().__init__(detail or kind.detail)
        self.kind = kind
        self.detail = detail or kind.detail
        self.retryable = kind.retryable if retryable is None else retryable
        self.members = members

    def recorded(self) -> "Problem":
        self.is_recorded = True
        return self

    @property
    def status(self) -> int:
        return self.kind.status

    @property
    def reason(self) -> str:
        return self.kind.reason

    def body(self) -> bytes:
        return msgspec.json.encode(self.kind.document(detail=self.detail, retryable=self.retryable, **self.members))

    def headers(self) -> list[tuple[str, str]]:
        headers = [*HEAD]
        if self.kind.status in RETRY_LATER:
            # Jittered, so that clients refused together do not all return together.
            headers.append(("retry-after", str(random.randint(1, 3))))
        if self.kind.status == 401:
            headers.append(("www-authenticate", "Bearer"))
        return headers
