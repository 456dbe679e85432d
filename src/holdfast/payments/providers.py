"""Opens the payment providers that are configured."""

from holdfast.payments.port import PaymentProvider


def open_providers(
    *, sandbox_url: str, stripe_api_key: str, stripe_api_base: str, timeout_s: float
) -> dict[str, PaymentProvider]:
    """By the name that a sale has under `payment`. The caller closes them."""
    # Their libraries are slow to import, and most installations need neither.
    providers: dict[str, PaymentProvider] = {}
    if sandbox_url:
        from holdfast.payments.sandbox.client import SandboxProvider  # noqa: PLC0415 - see above

        providers["sandbox"] = SandboxProvider(sandbox_url, timeout_s)
    if stripe_api_key:
        from holdfast.payments.stripe.provider import StripeProvider  # noqa: PLC0415 - see above

        providers["stripe"] = StripeProvider(stripe_api_key, timeout_s, stripe_api_base)
    return providers
