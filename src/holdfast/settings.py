"""Settings, from the environment (`HOLDFAST_…`) or `holdfast.toml`; the defaults work without configuration.

README's table is generated from the descriptions here: `make docs`.
"""

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from holdfast.access.cell_stores import CellsText, check_cells
from holdfast.access.origins import parse_origins
from holdfast.access.setting_errors import TOML, blame_toml, explain_setting, refuse_renamed
from holdfast.access.setting_values import (
    MIN_SECRET_BYTES,
    MIN_SERVICE_KEY,
    LongSecret,
    ServiceKeyText,
    SigningKeys,
    StripePublicKey,
    StripeSecretKey,
    WebhookSecret,
    http_url,
    networks,
)
from holdfast.domain.sale.rates import parse_rates
from holdfast.errors import SettingsError
from holdfast.gate.redis.link.redis_url import check_redis
from holdfast.ledger.engine.database_url import (
    check_database_url,
    check_replica_urls,
    parse_replica_urls,
    with_hosts_as_options,
)
from holdfast.messages.mail_settings import check_mail
from holdfast.messages.push.vapid import check_push
from holdfast.runtime.client_address import Networks, parse_networks
from holdfast.runtime.private_files import generated_secret
from holdfast.streams.kafka.kafka_url import check_kafka

# Refused by name, because an ignored setting would silently fall back to its default.
RENAMED = {"line_max": "queue_max", "patience_ms": "queue_timeout_ms", "sold_out_memory_ms": "sold_out_cache_ms"}


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", env_ignore_empty=True, toml_file=TOML, extra="ignore")

    data: Path = Field(
        Path("data"), description="Directory for the embedded database, the audit segments and generated keys."
    )
    database_url: str = Field(
        "",
        description="`sqlite:///path` or `postgresql://…` with libpq options such as `sslmode`, and several hosts "
        "(`postgresql://h1,h2/name`), of which the primary is used; "
        "a SQLite file in the data directory if unset.",
    )
    database_replica_urls: str = Field(
        "", description="Read replicas of PostgreSQL, as `postgresql://h2/name,postgresql://h3/name`."
    )
    cells: CellsText = Field(
        "",
        description="Spread sales over cells with stores of their own, as "
        "`a=postgresql://h1/a|redis://h2;b=postgresql://h3/b`; `HOLDFAST_DATABASE_URL` is then the control database.",
    )
    redis_url: str = Field(
        "",
        description="Decide reservations in Redis or Valkey, with PostgreSQL as the ledger: `redis://`, `rediss://`, "
        "`redis+sentinel://h1,h2/service` or `redis+cluster://h1,h2`.",
    )
    redis_fsync: Literal["always", "everysec", "no"] = Field(
        "always",
        description="The `appendfsync` policy the Redis server must have (`always`, `everysec`, or `no` to skip "
        "the check); only `always` survives a crash without loss.",
    )
    redis_replicas_min: int = Field(
        0, ge=0, description="Redis replicas that must acknowledge a batch before it is answered."
    )
    redis_timeout_ms: int = Field(2000, ge=10, description="Timeout of one Redis call.")
    kafka_url: str = Field(
        "",
        description="Publish events to Kafka: `kafka://host:9092,host:9092` or `kafka+ssl://user:password@host:9093`; "
        "needs `holdfast[kafka]`.",
    )
    shed_lag_max: int = Field(
        100_000,
        ge=1,
        description="Unfinished journal entries, settlements and (if settled from Kafka) events that stop new sales.",
    )
    shed_host_percent: int = Field(
        90,
        ge=0,
        le=100,
        description="CPU or memory use of the container or host at which optional reads (the audit) answer "
        '`{"disabled": true}`, until it is 10 lower; 0: never.',
    )
    start_timeout_s: int = Field(60, ge=0, description="Seconds that a starting server or worker waits for its stores.")
    database_connections: int = Field(8, ge=2, le=100, description="PostgreSQL connections per server process.")

    service_key: ServiceKeyText = Field(
        SecretStr(""), description="Admin key, a bearer token with every scope; generated if unset."
    )
    buyer_secret: LongSecret = Field(
        SecretStr(""), description="HS256 secret that signs buyers' JWTs, at least 32 bytes; generated if unset."
    )
    buyer_jwks_url: str = Field(
        "", description="JWKS URL to verify buyers' JWTs with public keys instead (RS256, ES256, EdDSA)."
    )
    buyer_audience: str = Field(
        "", description="What a buyer's JWT must name in `aud`; if unset, tokens for other services are accepted."
    )
    buyer_issuer: str = Field("", description="What a buyer's JWT must have as `iss`; if unset, any is accepted.")
    buyer_token_url: str = Field(
        "",
        description="URL or path where the storefront fetches its visitor's JWT from your auth service, "
        'as `{"token": …}`.',
    )
    allowed_origins: str = Field(
        "",
        description="Origins of your shop's pages, as in `https://shop.example.com`: they may call the API from a "
        "browser (CORS), and the waiting room may send its visitors there.",
    )
    signing_key: SigningKeys = Field(
        SecretStr(""),
        description="Signs receipts, tickets and passes: a secret of at least 32 bytes, or `id:secret,id:secret` to "
        "rotate (the first signs); must be the same on all servers; generated if unset.",
    )
    oidc_issuer: str = Field("", description="OpenID Connect issuer for operators, such as `https://id.example.com`.")
    oidc_client_id: str = Field("", description="Client ID of the console at that issuer.")
    oidc_client_secret: SecretStr = Field(SecretStr(""), description="Its client secret; unset for a public client.")
    approvals: bool = Field(False, description="Whether a second operator must approve irreversible actions.")
    approval_refunds_per_hour: int = Field(20, ge=0, description="Refunds per hour and operator without approval.")
    console_url: str = Field("", description="URL of this server as operators' browsers see it; for links.")
    demo: bool = Field(False, description="Demo mode with play money; only `holdfast demo` may set it.")
    demo_simulation_url: str = Field("", description="The demo's simulation page; only `holdfast demo` may set it.")

    payment_sandbox_url: str = Field("", description="URL of a running `holdfast sandbox`, to let sales pay there.")
    payment_sandbox_webhook_secret: WebhookSecret = Field(
        SecretStr(""), description="Verifies the sandbox's webhooks: `whsec_` and base64, the same on both sides."
    )
    stripe_api_key: StripeSecretKey = Field(
        SecretStr(""),
        description="Stripe secret key `sk_…`, or a restricted key `rk_…` that may write PaymentIntents and Refunds.",
    )
    stripe_publishable_key: StripePublicKey = Field(
        "", description="Stripe publishable key `pk_…`: the storefront takes cards in Stripe's Payment Element."
    )
    stripe_api_base: str = Field("", description="Alternative Stripe URL for the API and script, for tests.")
    stripe_webhook_secret: WebhookSecret = Field(SecretStr(""), description="Verifies Stripe's webhooks: `whsec_…`.")
    rates: str = Field("", description="Exchange rates for quotes, as in `EUR/USD=1.0842,EUR/GBP=0.853`.")
    rates_url: str = Field("", description="HTTP service to ask for exchange rates instead.")
    payment_timeout_ms: int = Field(
        5000, ge=100, le=80_000, description="Timeout of a payment provider call; beyond it the outcome is unknown."
    )
    settlement_rate_per_second: int = Field(5000, ge=1, description="Payments started per second, per worker.")
    settlement_source: Literal["ledger", "kafka"] = Field(
        "ledger",
        description="How settlement learns of work: from the ledger, or as a consumer group over intents in `kafka`.",
    )
    settlement_parallel: int = Field(256, ge=1, le=1000, description="Payments in flight at once, per worker.")
    settlement_attempts_max: int = Field(
        12, ge=1, le=100, description="Attempts before a payment is parked for a person."
    )

    batch_max: int = Field(512, ge=1, le=4096, description="Maximum commands decided in one batch.")
    queue_max: int = Field(8192, ge=1, description="Commands that may queue for one pool before it answers `busy`.")
    queue_timeout_ms: int = Field(
        2000, ge=10, description="How long a command may queue before it is dropped undecided."
    )
    sold_out_cache_ms: int = Field(
        100, ge=0, le=1000, description="How long an out-of-stock refusal is answered from cache."
    )

    trusted_proxies: str = Field(
        "", description="Proxies whose `X-Forwarded-For` is trusted, as in `10.0.0.0/8,192.168.1.7`."
    )
    rate_per_address: int = Field(100, ge=0, description="Requests per second per client address; 0 for no limit.")
    rate_per_buyer: int = Field(50, ge=0, description="Requests per second per buyer; 0 for no limit.")
    places_per_address: int = Field(1000, ge=0, description="Waiting-room places per client address; 0 for no limit.")
    accounts_per_device: int = Field(0, ge=0, le=1000, description="Accounts per device in a sale's room; 0: any.")
    captcha_verify_url: str = Field("", description="Where captcha tokens are verified (`siteverify`), if anywhere.")
    captcha_secret: SecretStr = Field(SecretStr(""), description="Secret key of your site at that service.")
    captcha_required: bool = Field(False, description="Accept no proof of work instead while that service answers.")
    risk_url: str = Field("", description="Risk service that is asked about the buyer at every join.")
    risk_token: SecretStr = Field(SecretStr(""), description="Bearer token for that service.")
    risk_timeout_ms: int = Field(50, ge=1, le=2000, description="How long a join waits for it before it is allowed.")
    shared_addresses: str = Field(
        "", description="Networks that many people share, exempt from `units_per_address`, as in `198.51.100.0/24`."
    )
    limit_loopback: bool = Field(False, description="Apply the address limits to loopback clients as well.")
    edge_url: str = Field("", description="URL of the cache in front; sales are warmed there before they open.")
    edge_cache_directories: str = Field(
        "", description="Cache directories of nginx on this host, separated by commas, purged when a sale changes."
    )
    edge_purge_url: str = Field(
        "", description="CDN URL that gets a POST with a sale's cache tag when it changes; `{tag}` is replaced."
    )
    edge_purge_token: SecretStr = Field(SecretStr(""), description="Bearer token of that CDN.")
    webhook_private: bool = Field(False, description="Allow webhooks to loopback and private addresses.")
    smtp_url: SecretStr = Field(
        SecretStr(""),
        description="Send messages by mail: `smtp://user:password@host:587` or `smtps://user:password@host`.",
    )
    mail_from: str = Field("", description="The sender of mail, as in `Shop <noreply@shop.example>`.")
    push_contact: str = Field(
        "", description="Send notifications to browsers; how push services reach you: `mailto:ops@shop.example`."
    )
    push_key: SecretStr = Field(SecretStr(""), description="VAPID private key of notifications; generated if unset.")
    public_url: str = Field("", description="URL of this server as buyers see it, for links in messages.")
    message_templates: str = Field("", description="Folder with templates of your own for messages.")
    keep_days: int = Field(
        0,
        ge=0,
        description="Days that ended reservations, lines of closed sales and parked deliveries are kept; 0: for ever.",
    )
    archive_directory: str = Field(
        "", description="Where `holdfast archive` puts ended months; with it, only what is archived is deleted."
    )
    clicks_to: str = Field(
        "",
        description="Where the click stream goes, separated by commas: `kafka`, a directory, or `s3://bucket/prefix`; "
        "files need `holdfast[archive]`. If unset, there is none.",
    )
    audit_days: int = Field(30, ge=1, description="Days that refusals are kept for `holdfast audit`.")
    otel_endpoint: str = Field(
        "", description="Collector that gets traces by OTLP, as in `http://127.0.0.1:4318`; needs `holdfast[otel]`."
    )
    otel_sample_percent: float = Field(
        1.0, ge=0, le=100, description="Requests traced, in percent; service keys and proxies decide by `traceparent`."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Minimum log level: `debug`, `info`, `warning` or `error`."
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

    @field_validator("trusted_proxies", "shared_addresses")
    @classmethod
    def _proxies_are_networks(cls, text: str) -> str:
        return networks(text)

    @field_validator("allowed_origins", "rates")
    @classmethod
    def _lists_can_be_read(cls, text: str, info: ValidationInfo) -> str:
        (parse_rates if info.field_name == "rates" else parse_origins)(text)
        return text

    @field_validator("buyer_token_url")
    @classmethod
    def _token_url_is_http(cls, url: str) -> str:
        if url.startswith("/") and not url.startswith("//"):
            return url
        return http_url(url, "/login/token or https://shop.example.com/login/token")

    @field_validator(
        "payment_sandbox_url", "stripe_api_base", "rates_url", "edge_url", "edge_purge_url", "oidc_issuer",
        "console_url", "risk_url", "captcha_verify_url", "buyer_jwks_url", "public_url", "otel_endpoint",
    )  # fmt: skip
    @classmethod
    def _provider_url_is_http(cls, url: str) -> str:
        return http_url(url, "https://service.example.com or http://127.0.0.1:8081")

    @model_validator(mode="after")
    def _default_database(self) -> "Settings":
        if not self.database_url:
            self.database_url = f"sqlite:///{self.data.resolve() / 'holdfast.db'}"
        self.database_url = with_hosts_as_options(self.database_url)
        check_database_url(self.database_url)
        check_replica_urls(self.database_replica_urls, self.database_url)
        return self

    @model_validator(mode="after")
    def _redis_has_a_ledger(self) -> "Settings":
        check_redis(self.redis_url, is_embedded=self.is_embedded)
        return self

    @model_validator(mode="after")
    def _cells_have_the_stores(self) -> "Settings":
        check_cells(self.cells, self.__dict__)
        return self

    @model_validator(mode="after")
    def _kafka_url_is_one(self) -> "Settings":
        check_kafka(self.kafka_url, has_clicks="kafka" in self.click_sinks, has_intents=self.has_intents)
        return self

    @model_validator(mode="after")
    def _mail_can_be_sent(self) -> "Settings":
        check_mail(self.smtp_url.get_secret_value(), self.mail_from, self.message_templates)
        check_push(self.push_contact, self.push_key.get_secret_value())
        return self

    @model_validator(mode="after")
    def _oidc_has_a_client(self) -> "Settings":
        if bool(self.oidc_issuer) != bool(self.oidc_client_id):
            raise SettingsError("HOLDFAST_OIDC_ISSUER and HOLDFAST_OIDC_CLIENT_ID are needed together")
        return self

    @property
    def is_embedded(self) -> bool:
        return self.database_url.startswith("sqlite")

    @property
    def replica_urls(self) -> list[str]:
        return parse_replica_urls(self.database_replica_urls)

    @property
    def trusted_networks(self) -> Networks:
        return parse_networks(self.trusted_proxies)

    @property
    def origins(self) -> frozenset[str]:
        return parse_origins(self.allowed_origins)

    @property
    def has_redis(self) -> bool:
        return bool(self.redis_url)

    @property
    def has_kafka(self) -> bool:
        return bool(self.kafka_url)

    @property
    def has_intents(self) -> bool:
        """Whether settlement consumes intents."""
        return self.settlement_source == "kafka"

    @property
    def click_sinks(self) -> list[str]:
        return [sink.strip() for sink in self.clicks_to.split(",") if sink.strip()]

    @property
    def clicks_directory(self) -> Path | None:
        """On this host, where the console's funnel is read from."""
        return next((Path(sink) for sink in self.click_sinks if sink != "kafka" and "://" not in sink), None)

    @property
    def has_archive(self) -> bool:
        return bool(self.archive_directory)

    @property
    def archive_path(self) -> Path:
        return Path(self.archive_directory) if self.archive_directory else self.data / "archive"

    @property
    def audit_directory(self) -> Path:
        return self.data / "audit"

    def service_key_text(self) -> str:
        return self.service_key.get_secret_value() or self._generated("service_key", "hf_", MIN_SERVICE_KEY)

    def buyer_secret_text(self) -> str:
        return self.buyer_secret.get_secret_value() or self._generated("buyer_secret", "", MIN_SECRET_BYTES)

    @property
    def buyer_claims(self) -> dict[str, str]:
        """What every buyer's token must say, besides who it is."""
        wanted = {"aud": self.buyer_audience, "iss": self.buyer_issuer}
        return {name: value for name, value in wanted.items() if value}

    def signing_key_text(self) -> str:
        return self.signing_key.get_secret_value() or self._generated("signing_key", "", MIN_SECRET_BYTES)

    def push_key_text(self) -> str:
        return self.push_key.get_secret_value() or self._generated("push_key", "", MIN_SECRET_BYTES)

    def _generated(self, name: str, prefix: str, least: int) -> str:
        """A secret generated once and stored in the data directory, readable only by its owner."""
        return generated_secret(self.data / name, prefix, least)


def load_settings(**overrides: object) -> Settings:
    """Read the settings; the error names the one that is wrong and why."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        refuse_renamed(RENAMED)
        settings = Settings(**given)  # type: ignore[arg-type]
    except ValidationError as exc:
        raise SettingsError(blame_toml("\n".join(map(explain_setting, exc.errors())))) from exc
    except SettingsError as exc:
        raise SettingsError(blame_toml(str(exc))) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"holdfast.toml cannot be read: {exc}") from exc
    if settings.demo and "demo" not in given:
        raise SettingsError(
            blame_toml("HOLDFAST_DEMO: demo mode gives every visitor play money; remove it and run holdfast demo")
        )
    return settings
