"""The payment providers that the settings name."""

from holdfast.payments.port import PaymentProvider
from holdfast.payments.sandbox.client import SandboxProvider
from holdfast.settings import Settings


def open_providers(settings: Settings) -> dict[str, PaymentProvider]:
    """By the name that a sale gives under `payment`. Whoever opens them closes them."""
    timeout_s = settings.payment_timeout_ms / 1000
    providers: dict[str, PaymentProvider] = {}
    if settings.payment_sandbox_url:
        providers["sandbox"] = SandboxProvider(settings.payment_sandbox_url, timeout_s)
    return providers
