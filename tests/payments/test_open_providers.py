"""From settings to providers."""

from pathlib import Path

import pytest

from holdfast.errors import SettingsError
from holdfast.payments.port import PaymentProvider
from holdfast.payments.providers import open_providers
from holdfast.settings import load_settings


async def opened(**settings: str) -> dict[str, PaymentProvider]:
    loaded = load_settings(**settings)
    providers = open_providers(
        sandbox_url=loaded.payment_sandbox_url,
        stripe_api_key=loaded.stripe_api_key.get_secret_value(),
        stripe_api_base=loaded.stripe_api_base,
        timeout_s=1.0,
    )
    for provider in providers.values():
        await provider.close()
    return providers


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a directory without holdfast.toml."""
    monkeypatch.chdir(tmp_path)


async def test_without_settings_there_are_no_providers() -> None:
    assert await opened() == {}


async def test_each_setting_opens_its_provider() -> None:
    both = await opened(payment_sandbox_url="http://127.0.0.1:8081/", stripe_api_key="sk_test_1")
    assert list(both) == ["sandbox", "stripe"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payment_sandbox_url", "127.0.0.1:8081"),
        ("payment_sandbox_url", "ftp://127.0.0.1"),
        ("stripe_api_base", "stripe"),
        ("stripe_api_key", "pk_test_public"),
        ("stripe_webhook_secret", "secret"),
        ("payment_sandbox_webhook_secret", "whsec_!!!"),
        ("payment_timeout_ms", "0"),
    ],
)
async def test_invalid_settings_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"HOLDFAST_{name.upper()}"):
        load_settings(**{name: value})


@pytest.mark.parametrize("name", ["stripe_api_key", "stripe_webhook_secret", "payment_sandbox_webhook_secret"])
async def test_secrets_are_not_in_the_repr(name: str) -> None:
    secret = "sk_test_" + "c2VjcmV0" * 4 if name == "stripe_api_key" else "whsec_" + "c2VjcmV0" * 4
    assert secret not in repr(load_settings(**{name: secret}))
