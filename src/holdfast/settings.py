"""Settings: from the environment (`HOLDFAST_…`) or `holdfast.toml`, with defaults that run as they are."""

import os
import secrets
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from holdfast.errors import SettingsError

# HS256 signs with SHA-256: a shorter secret than its output can be guessed faster than the signature forged.
MIN_SECRET_BYTES = 32


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="HOLDFAST_", env_ignore_empty=True, toml_file="holdfast.toml", extra="ignore"
    )

    data: Path = Field(Path("data"), description="Directory of the embedded database and generated keys.")
    database_url: str = Field(
        "", description="sqlite:///path or postgresql://…; default: a file in the data directory."
    )
    service_key: SecretStr = Field(SecretStr(""), description="Bearer key with every scope; default: generated.")
    buyer_secret: SecretStr = Field(SecretStr(""), description="HS256 secret of buyers' JWTs; default: generated.")
    buyer_jwks_url: str = Field("", description="Where the public keys of buyers' JWTs are published.")

    batch_max: int = Field(512, ge=1, le=4096, description="Commands decided together at most.")
    line_max: int = Field(8192, ge=1, description="Commands that may wait for one pool before it says busy.")
    patience_ms: int = Field(2000, ge=10, description="How long a command may wait before it is dropped undecided.")
    sold_out_memory_ms: int = Field(100, ge=0, le=1000, description="How long a refusal for stock is repeated unasked.")
    database_connections: int = Field(8, ge=2, le=100, description="PostgreSQL connections per server process.")
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
        if text and not (text.startswith("hf_") and len(text) >= 19 and text.isascii()):
            raise ValueError("must start with hf_ and go on for at least 16 characters")
        return key

    @field_validator("buyer_secret")
    @classmethod
    def _secret_is_long(cls, secret: SecretStr) -> SecretStr:
        if 0 < len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"must have at least {MIN_SECRET_BYTES} bytes")
        return secret

    @model_validator(mode="after")
    def _default_database(self) -> "Settings":
        if not self.database_url:
            self.database_url = f"sqlite:///{self.data.resolve() / 'holdfast.db'}"
        _check_database_url(self.database_url)
        return self

    @property
    def is_embedded(self) -> bool:
        return self.database_url.startswith("sqlite")

    def service_key_text(self) -> str:
        return self.service_key.get_secret_value() or self._generated("service_key", "hf_")

    def buyer_secret_text(self) -> str:
        return self.buyer_secret.get_secret_value() or self._generated("buyer_secret", "")

    def _generated(self, name: str, prefix: str) -> str:
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
        return path.read_text().strip()


def load_settings(**overrides: object) -> Settings:
    """Read the settings, or say which one is wrong and why."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as exc:
        raise SettingsError("\n".join(map(_explain, exc.errors()))) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"holdfast.toml cannot be read: {exc}") from exc


def _explain(error: ErrorDetails) -> str:
    name = "_".join(map(str, error["loc"])).upper()
    return f"HOLDFAST_{name}: {error['msg'].removeprefix('Value error, ')}"


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
