"""Settings: from the environment (`HOLDFAST_…`) or `holdfast.toml`, with defaults that run as they are."""

import os
import re
import secrets
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from holdfast.errors import SettingsError
from holdfast.gate.link.redis_url import parse_redis_url
from holdfast.http.client_address import Networks, parse_networks

# Looked for in the current directory.
TOML = Path("holdfast.toml")

# HS256 signs with SHA-256: a shorter secret than its output can be guessed faster than the signature forged.
MIN_SECRET_BYTES = 32
# The mark `hf_`, and 16 characters that are as good as eight bytes of chance if they are only hexadecimal.
MIN_SERVICE_KEY = 19


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", env_ignore_empty=True, toml_file=TOML, extra="ignore")

    data: Path = Field(Path("data"), description="Directory of the embedded database and generated keys.")
    database_url: str = Field(
        "", description="sqlite:///path or postgresql://…; default: a file in the data directory."
    )
    service_key: SecretStr = Field(SecretStr(""), description="Bearer key with every scope; default: generated.")
    buyer_secret: SecretStr = Field(SecretStr(""), description="HS256 secret of buyers' JWTs; default: generated.")
    buyer_jwks_url: str = Field("", description="Where the public keys of buyers' JWTs are published.")
    buyer_token_url: str = Field(
        "", description='Where pages get their visitor\'s token from your login, as {"token": …}; a path or an address.'
    )
    demo: bool = Field(False, description="Give each browser a buyer and play money. Only `holdfast demo` sets it.")
    signing_key: SecretStr = Field(
        SecretStr(""), description="Signs receipts: a secret, or id:secret,id:secret to rotate; default: generated."
    )

    batch_max: int = Field(512, ge=1, le=4096, description="Commands decided together at most.")
    line_max: int = Field(8192, ge=1, description="Commands that may wait for one pool before it says busy.")
    patience_ms: int = Field(2000, ge=10, description="How long a command may wait before it is dropped undecided.")
    sold_out_memory_ms: int = Field(100, ge=0, le=1000, description="How long a refusal for stock is repeated unasked.")
    database_connections: int = Field(8, ge=2, le=100, description="PostgreSQL connections per server process.")
    redis_url: str = Field(
        "", description="redis://…, redis+sentinel://… or redis+cluster://…: decide there, at the highest rates."
    )
    redis_fsync: Literal["always", "everysec", "no"] = Field(
        "always", description="How often Redis must sync its append-only file; no: it may have none."
    )
    redis_replicas_min: int = Field(0, ge=0, description="Redis replicas that must have a batch before it is answered.")
    redis_timeout_ms: int = Field(2000, ge=10, description="How long one call to Redis may take.")
    payment_sandbox_url: str = Field("", description="Where `holdfast sandbox` listens: sales may pay there.")
    payment_sandbox_webhook_secret: SecretStr = Field(
        SecretStr(""), description="Signs what the sandbox tells us: whsec_ and base64, the same on both sides."
    )
    stripe_api_key: SecretStr = Field(SecretStr(""), description="Stripe's secret or restricted key: sk_… or rk_….")
    stripe_api_base: str = Field("", description="Another address of Stripe's API, for tests; default: Stripe's own.")
    stripe_webhook_secret: SecretStr = Field(SecretStr(""), description="Signs what Stripe tells us: whsec_….")
    settlement_rate_per_second: int = Field(5000, ge=1, description="Payments taken up per second, by each worker.")
    settlement_parallel: int = Field(256, ge=1, le=1000, description="Payments under way at once, in each worker.")
    settlement_attempts_max: int = Field(12, ge=1, le=100, description="Attempts before an item waits for a person.")
    payment_timeout_ms: int = Field(
        5000, ge=100, le=80_000, description="How long one call to a payment provider may take."
    )
    trusted_proxies: str = Field(
        "", description="Networks of the proxies in front, as CIDRs: their X-Forwarded-For is believed."
    )
    rate_per_address: int = Field(100, ge=0, description="Requests per second from one address; 0: any.")
    rate_per_buyer: int = Field(50, ge=0, description="Requests per second of one buyer; 0: any.")
    places_per_address: int = Field(1000, ge=0, description="Places in line that one address may take; 0: any.")
    limit_loopback: bool = Field(False, description="Limit clients on this machine by address, too.")
    audit_days: int = Field(30, ge=1, description="How long refusals are kept for `holdfast audit`.")
    webhook_private: bool | None = Field(
        None, description="Call webhooks on this machine and in private networks; default: only where SQLite is used."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least important log line kept."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @field_validator("service_key")
    @classmethod
    def _service_key_is_marked(cls, key: SecretStr) -> SecretStr:
        text = key.get_secret_value()
        if text and not (text.startswith("hf_") and len(text) >= MIN_SERVICE_KEY and text.isascii()):
            raise ValueError("must start with hf_ and go on for at least 16 characters")
        return key

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies_are_networks(cls, text: str) -> str:
        try:
            parse_networks(text)
        except ValueError as exc:
            raise ValueError(f"must be networks such as 10.0.0.0/8,fd00::/8 ({exc})") from exc
        return text

    @field_validator("buyer_jwks_url")
    @classmethod
    def _jwks_url_is_of_the_web(cls, url: str) -> str:
        return _web_address(url, "https://login.example.com/.well-known/jwks.json")

    @field_validator("buyer_token_url")
    @classmethod
    def _token_url_is_of_the_web(cls, url: str) -> str:
        if url.startswith("/") and not url.startswith("//"):
            return url
        return _web_address(url, "/login/token or https://shop.example.com/login/token")

    @field_validator("payment_sandbox_url", "stripe_api_base")
    @classmethod
    def _provider_is_on_the_web(cls, url: str) -> str:
        return _web_address(url, "http://127.0.0.1:8081")

    @field_validator("stripe_api_key")
    @classmethod
    def _stripe_key_is_secret(cls, key: SecretStr) -> SecretStr:
        """A publishable key (pk_…) can start a payment in a browser, and nothing else."""
        if key.get_secret_value() and not key.get_secret_value().startswith(("sk_", "rk_")):
            raise ValueError("must be a secret key, sk_… or rk_…")
        return key

    @field_validator("payment_sandbox_webhook_secret", "stripe_webhook_secret")
    @classmethod
    def _webhook_secret_is_marked(cls, secret: SecretStr) -> SecretStr:
        if secret.get_secret_value() and not _is_webhook_secret(secret.get_secret_value()):
            raise ValueError("must be whsec_ followed by base64")
        return secret

    @field_validator("buyer_secret")
    @classmethod
    def _secret_is_long(cls, secret: SecretStr) -> SecretStr:
        if 0 < len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"must have at least {MIN_SECRET_BYTES} bytes")
        return secret

    @field_validator("signing_key")
    @classmethod
    def _signing_secrets_are_long(cls, keys: SecretStr) -> SecretStr:
        parts = [part.strip().rpartition(":") for part in keys.get_secret_value().split(",") if part]
        if any(len(secret.encode()) < MIN_SECRET_BYTES for _, _, secret in parts):
            raise ValueError(f"each secret must have at least {MIN_SECRET_BYTES} bytes")
        return keys

    @model_validator(mode="after")
    def _default_database(self) -> "Settings":
        if not self.database_url:
            self.database_url = f"sqlite:///{self.data.resolve() / 'holdfast.db'}"
        _check_database_url(self.database_url)
        return self

    @model_validator(mode="after")
    def _redis_has_a_ledger(self) -> "Settings":
        if self.has_redis:
            parse_redis_url(self.redis_url)
            if self.is_embedded:
                raise SettingsError(
                    "HOLDFAST_REDIS_URL needs PostgreSQL as its ledger: set HOLDFAST_DATABASE_URL=postgresql://…"
                )
        return self

    @property
    def is_embedded(self) -> bool:
        return self.database_url.startswith("sqlite")

    @property
    def trusted_networks(self) -> Networks:
        return parse_networks(self.trusted_proxies)

    @property
    def has_redis(self) -> bool:
        return bool(self.redis_url)

    @property
    def audit_directory(self) -> Path:
        return self.data / "audit"

    @property
    def calls_private_webhooks(self) -> bool:
        """One machine with a file is where people try things out; a server among servers has neighbours to protect."""
        return self.is_embedded if self.webhook_private is None else self.webhook_private

    def service_key_text(self) -> str:
        return self.service_key.get_secret_value() or self._generated("service_key", "hf_", MIN_SERVICE_KEY)

    def buyer_secret_text(self) -> str:
        return self.buyer_secret.get_secret_value() or self._generated("buyer_secret", "", MIN_SECRET_BYTES)

    def signing_key_text(self) -> str:
        return self.signing_key.get_secret_value() or self._generated("signing_key", "", MIN_SECRET_BYTES)

    def _generated(self, name: str, prefix: str, least: int) -> str:
        """A secret made once and kept in the data directory, readable by its owner only."""
        path = self.data / name
        if not path.exists():
            self.data.mkdir(parents=True, exist_ok=True)
            # Written aside (mkstemp is private from the start) and linked whole: of two processes one wins, both read
            # it.
            handle, draft = tempfile.mkstemp(dir=self.data)
            with os.fdopen(handle, "w") as file:
                file.write(prefix + secrets.token_urlsafe(32))
            with suppress(FileExistsError):
                os.link(draft, path)
            Path(draft).unlink()
        return _read_back(path, prefix, least)


def _web_address(url: str, example: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError(f"must be an address such as {example}")
    return url.rstrip("/")


def _is_webhook_secret(secret: str) -> bool:
    return re.fullmatch(r"whsec_[A-Za-z0-9+/_-]{16,}={0,2}", secret) is not None


def _read_back(path: Path, prefix: str, least: int) -> str:
    """A file cut short, by a full disk or by hand, would make a key that anyone can guess."""
    secret = path.read_text(errors="replace").strip()
    if not secret.startswith(prefix) or not secret.isascii() or len(secret) < least:
        raise SettingsError(
            f"{path} is {'damaged' if secret else 'empty'}, it should have at least {least} characters; "
            "remove it, and the next start makes a new one"
        )
    return secret


def load_settings(**overrides: object) -> Settings:
    """Read the settings, or say which one is wrong and why."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = Settings(**given)  # type: ignore[arg-type]
    except ValidationError as exc:
        raise SettingsError(_blame_toml("\n".join(map(_explain, exc.errors())))) from exc
    except SettingsError as exc:
        raise SettingsError(_blame_toml(str(exc))) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"holdfast.toml cannot be read: {exc}") from exc
    if settings.demo and "demo" not in given:
        raise SettingsError(
            _blame_toml("HOLDFAST_DEMO: gives everyone a buyer and play money; remove it, and use: holdfast demo")
        )
    return settings


def _explain(error: ErrorDetails) -> str:
    name = "_".join(map(str, error["loc"])).upper()
    return f"HOLDFAST_{name}: {error['msg'].removeprefix('Value error, ')}"


def _blame_toml(message: str) -> str:
    """Each line begins with the variable it is about; name the file where the value came from there."""
    in_environment = {name.upper() for name, value in os.environ.items() if value}
    in_toml = {f"HOLDFAST_{name}".upper(): f"{name} in {TOML}" for name in _read_toml()}
    places = {name: place for name, place in in_toml.items() if name not in in_environment}
    return re.sub(r"^HOLDFAST_\w+", lambda name: places.get(name[0], name[0]), message, flags=re.MULTILINE)


def _read_toml() -> dict[str, Any]:
    return tomllib.loads(TOML.read_text()) if TOML.exists() else {}


def _check_database_url(url: str) -> None:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as exc:
        # The address may hold a password, so it is not repeated.
        raise SettingsError(
            "HOLDFAST_DATABASE_URL is not an address; use sqlite:///path or postgresql://user:password@host:5432/name"
        ) from exc
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise SettingsError("HOLDFAST_DATABASE_URL: name a file, as in sqlite:///data/holdfast.db")
    if backend not in ("sqlite", "postgresql"):
        raise SettingsError(
            f"HOLDFAST_DATABASE_URL: {backend}:// is not supported; use sqlite:///path or postgresql://…"
        )
