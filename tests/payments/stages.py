"""The providers under test, each with its service behind a real socket and the service's own records."""

from abc import ABC, abstractmethod
from itertools import count
from typing import ClassVar
from uuid import uuid4

from sandbox_process import SandboxProcess

from holdfast.payments.port import Charge, PaymentProvider
from holdfast.payments.sandbox.client import SandboxProvider
from holdfast.payments.stripe.provider import StripeProvider
from stripe_server import API_KEY, StripeServer

TIMEOUT_S = 20.0
# Half of what a slow provider takes.
SHORT_S = 0.5
_number = count(1)


def new_charge(method: str | None, amount: int = 4999, customer: str | None = None) -> Charge:
    key = f"pay'{next(_number)}/{uuid4().hex}"
    return Charge(key, amount, "EUR", "ada", f"reservation-{key}", "sale", method, customer)


class Stage(ABC):
    """`methods` says how a charge names each fault. `reason` is what a declined card says."""

    methods: ClassVar[dict[str, str]]
    reason: str

    @abstractmethod
    def provider(self, url: str | None = None, timeout_s: float = TIMEOUT_S) -> PaymentProvider: ...

    @abstractmethod
    async def captures(self, key: str) -> list[int]:
        """For each payment under this key, how often money was really taken."""

    @abstractmethod
    def lose_capture_reply(self) -> str:
        """The method of a charge whose capture will be done and not answered, once."""

    @abstractmethod
    def catch_up(self) -> None:
        """Let whatever lags behind at the provider catch up."""


class SandboxStage(Stage):
    methods: ClassVar = {
        "good": "pm_card", "decline": "pm_decline", "slow": "pm_slow", "lost_reply": "pm_lost_reply",
        "error": "pm_error", "pending": "pm_pending",
    }  # fmt: skip
    reason = "card_declined"

    def __init__(self, sandbox: SandboxProcess) -> None:
        self._sandbox = sandbox

    def provider(self, url: str | None = None, timeout_s: float = TIMEOUT_S) -> PaymentProvider:
        return SandboxProvider(url or self._sandbox.url, timeout_s)

    async def captures(self, key: str) -> list[int]:
        return [entry["captures"] for entry in await self._sandbox.books() if entry["key"] == key]

    def lose_capture_reply(self) -> str:
        return "pm_lost_reply_capture"

    def catch_up(self) -> None:
        pass


class StripeStage(Stage):
    methods: ClassVar = {
        "good": "pm_card_visa", "decline": "pm_card_chargeDeclined", "slow": "pm_slow",
        "lost_reply": "pm_lost_reply", "error": "pm_error", "pending": "pm_processing",
    }  # fmt: skip
    reason = "generic_decline"

    def __init__(self, stripe: StripeServer) -> None:
        self._stripe = stripe

    def provider(self, url: str | None = None, timeout_s: float = TIMEOUT_S) -> PaymentProvider:
        return StripeProvider(API_KEY, timeout_s, url or self._stripe.url)

    async def captures(self, key: str) -> list[int]:
        return [self._stripe.captures[intent["id"]] for intent in self._stripe.by_key(key)]

    def lose_capture_reply(self) -> str:
        self._stripe.lose_next.add("capture")
        return "pm_card_visa"

    def catch_up(self) -> None:
        self._stripe.index()
