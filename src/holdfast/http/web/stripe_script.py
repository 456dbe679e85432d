"""Where Stripe's script comes from, and what it may load. Stripe wants it from its own host, never from ours."""

from msgspec import Struct

SCRIPT = "https://js.stripe.com/v3/"
# As Stripe's guide to security says.
_SCRIPTS = "https://js.stripe.com https://*.js.stripe.com"
_CALLS = "https://api.stripe.com"
_FRAMES = "https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com"


class StripeScript(Struct, frozen=True):
    """What the storefront needs to take a card."""

    publishable_key: str
    script_url: str


def stripe_script(publishable_key: str, api_base: str) -> StripeScript | None:
    """None if cards cannot be typed in here. An alternative API, for tests, has a script of its own."""
    if not publishable_key:
        return None
    return StripeScript(publishable_key, f"{api_base.rstrip('/')}/v3/" if api_base else SCRIPT)


def stripe_origins(api_base: str) -> tuple[str, str, str]:
    """For scripts, calls and frames."""
    base = api_base.rstrip("/")
    return (base, base, base) if base else (_SCRIPTS, _CALLS, _FRAMES)
