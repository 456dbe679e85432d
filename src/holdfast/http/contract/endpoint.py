"""The declaration of one endpoint: everything about a URL except its handler."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from holdfast.http.contract.problem import ProblemKind
from holdfast.ledger.access.keys import Scope
from holdfast.runtime.concurrency_limit import Priority

__all__ = ["Access", "Answers", "Document", "Endpoint", "Header", "IfUnknown", "Priority", "RateClass"]


class Access(Struct, frozen=True):
    """Who may call. A caller is identified before its body is looked at."""

    # False: public. The `Authorization` header is not read, unless `is_optional`.
    is_required: bool = True
    # Public, but a token that is sent must be valid.
    is_optional: bool = False
    buyers: bool = False
    # Services need this scope; None with `services`: any service key.
    scope: Scope | None = None
    services: bool = False
    # Any of these is accepted, too.
    others: frozenset[Scope] = frozenset()
    # A key that was made when `operate` covered this may call it until it is rotated.
    was_operate: bool = False
    # The message to a service key where only buyers may call.
    buyers_only: str = ""

    @property
    def name(self) -> str:
        """For the reference page."""
        if not self.is_required:
            return "public"
        scopes = " or ".join(f"`{scope}`" for scope in (self.scope, *sorted(self.others)))
        services = f"service key with the scope {scopes}" if self.scope else "service key"
        callers = [name for name, may in (("buyer", self.buyers), (services, self.services)) if may]
        return " or ".join(callers)

    def admits(self, scopes: frozenset[Scope], *, is_legacy: bool) -> bool:
        """A service key with these scopes."""
        if self.scope is None or self.scope in scopes or not self.others.isdisjoint(scopes):
            return True
        return self.was_operate and is_legacy


PUBLIC = Access(is_required=False)
PUBLIC_OR_TOKEN = Access(is_required=False, is_optional=True)
ANY_CALLER = Access(buyers=True, services=True)
ANY_SERVICE = Access(services=True)


def scope(needed: Scope) -> Access:
    return Access(scope=needed, services=True)


def buyer(detail: str) -> Access:
    return Access(buyers=True, buyers_only=detail)


def buyer_or(needed: Scope, *others: Scope) -> Access:
    """A buyer, who finds their own only, or a service with one of the scopes."""
    return Access(buyers=True, scope=needed, services=True, others=frozenset(others))


def reader(needed: Scope) -> Access:
    """Access to endpoints that only read."""
    return Access(scope=needed, services=True, others=frozenset({Scope.READ}))


INVENTORY, SALES, OPERATE = scope(Scope.INVENTORY), scope(Scope.SALES), scope(Scope.OPERATE)
READ_INVENTORY, READ_SALES, READ_OPERATE = reader(Scope.INVENTORY), reader(Scope.SALES), reader(Scope.OPERATE)
MONEY = Access(scope=Scope.MONEY, services=True, was_operate=True)
ADMIN = Access(scope=Scope.ADMIN, services=True, was_operate=True)
OWNER_OR_INVENTORY = buyer_or(Scope.INVENTORY)
OWNER_OR_READER = buyer_or(Scope.INVENTORY, Scope.READ)


class RateClass(StrEnum):
    """Which rate limit counts a request of a buyer or of an address."""

    # Probes and payment providers: on their own, so that buyers behind the same proxy do not use it up.
    PROBE = "probe"
    # Documents that everyone polls: each buyer once every two seconds.
    LOOK = "look"
    NORMAL = "normal"


class IfUnknown(StrEnum):
    """What a caller should do if it is unknown whether the request was carried out."""

    REPEAT = "Safe to retry: this operation is idempotent."
    SAME_KEY = "Retry with the same idempotency key."
    SAME_KEY_OR_TOTAL = "Retry with the same `Idempotency-Key`; without one, check `total_units` first."
    SAME_KEY_OR_LIST = "Retry with the same idempotency key; without one, look for it among the owner's reservations."
    CHECK_SERVING = "Check the room's `serving` before you send `admit` again: it would admit as many more."
    CHECK_KEYS = "List the keys before you retry, and revoke a key whose response was lost."
    CHECK_WEBHOOKS = "List the webhooks before you retry, and delete one whose response was lost."
    CHECK_ROTATION = "If it was rotated, rotate again and install that secret at once: the one you have stops signing."
    CHECK_DELIVERIES = "Check the webhook's deliveries before you retry: each test is a delivery of its own."

    @property
    def is_retryable(self) -> bool:
        """Whether a client may repeat the request without checking first."""
        return not self.name.startswith("CHECK_")


class Header(Struct, frozen=True):
    name: str
    description: str
    type: Any = str
    # If set, the header is required, and this is the answer without it.
    missing: ProblemKind | None = None
    # Another accepted header, in lower case.
    instead: str | None = None


class Document(Struct, frozen=True):
    """An answer that is not JSON."""

    media_type: str
    example: str = ""
    # Of a stream: what each event has. OpenAPI 3.1 describes an event, and not the stream.
    event_fields: tuple[str, ...] = ()


class Answers(Struct, frozen=True):
    """One possible answer: `body` is a Struct, a union of Structs, a Document, or None."""

    description: str
    body: Any = None
    headers: Mapping[str, str] = {}


class Endpoint(Struct, frozen=True, eq=False):
    """Compared by identity: there is one of each."""

    operation_id: str
    # The method and the path.
    route: str
    summary: str
    access: Access
    answers: Mapping[int, Answers]
    # None: never shed. Health checks matter most when the process is busy.
    priority: Priority | None
    tag: str = ""
    description: str = ""
    rate: RateClass = RateClass.NORMAL
    body: Any = None
    is_body_required: bool = True
    query: Any = None
    headers: tuple[Header, ...] = ()
    # False: the handler answers 404 to an ID that cannot exist. True: 422 names the parameter.
    checks_path: bool = True
    problems: tuple[ProblemKind, ...] = ()
    if_unknown: IfUnknown = IfUnknown.REPEAT
    # Values for the example on the reference page, where the field names are not enough.
    example: Mapping[str, Any] = {}
    # Also answers HEAD.
    has_head: bool = False
    # Log a line for each request. Not for endpoints called thousands of times a second.
    is_logged: bool = True
    # Answered even when requests are shed, with `Request.is_shed`.
    is_answered_when_shed: bool = False
    # Whether OpenAPI and the reference page show it. Pages are not shown.
    is_documented: bool = True
    # A read that is not needed to buy: while CPU or memory is nearly exhausted it answers 200
    # `{"disabled": true}` instead.
    is_optional: bool = False
    # Served by `holdfast demo` only.
    is_demo: bool = False

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def methods(self) -> tuple[str, ...]:
        return (self.method, "HEAD") if self.has_head else (self.method,)

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """In order. `{name:rest}` takes all that follows, slashes included."""
        segments = self.path.split("/")
        return tuple(part[1:-1].removesuffix(":rest") for part in segments if part.startswith("{"))

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace(":rest}", "}")
