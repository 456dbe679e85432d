"""The payment providers that the settings name."""

from holdfast.payments.port import PaymentProvider
from holdfast.settings import Settings


def open_providers(settings: Settings) -> dict[str, PaymentProvider]:
    """By the name that a sale gives under `payment`. Whoever opens them closes them."""
    # Their libraries take long to import, and most houses need neither.
    timeout_s = settings.payment_timeout_ms / 1000
    providers: dict[str, PaymentProvider] = {}
    if settings.payment_sandbox_url:
        from holdfast.payments.sandbox.client import SandboxProvider  # noqa: PLC0415

        providers["sandbox"] = SandboxProvider(settings.payment_sandbox_url, timeout_s)
    if settings.stripe_api_key.get_secret_value():
        from holdfast.payments.stripe.provider import StripeProvider  # noqa: PLC0415

        providers["stripe"] = StripeProvider(
            settings.stripe_api_key.get_secret_value(), timeout_s, settings.stripe_api_base
        )
    return providers
