"""`HOLDFAST_CELLS`: the cells that sales are distributed over, and the stores of each."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct
from pydantic import BeforeValidator, SecretStr

from holdfast.errors import SettingsError
from holdfast.gate.redis.link.redis_url import parse_redis_url
from holdfast.ledger.engine.database_url import check_database_url, with_hosts_as_options

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_EXAMPLE = "HOLDFAST_CELLS: write it as a=postgresql://h1/a|redis://h2:6379/0;b=postgresql://h3/b"
# Tables in `holdfast.toml` are converted to the text of the variable.
_STORES = ("database_url", "redis_url")
# Each cell has its own Redis. The other features work on one ledger only: for example, the contacts for mail would be
# in the control database, and the events that mails are about in the cells.
_NOT_WITH_CELLS = ("redis_url", "database_replica_urls", "settlement_source", "approvals", "smtp_url", "push_contact")


class CellStores(Struct, frozen=True):
    database_url: str
    redis_url: str = ""

    def __repr__(self) -> str:
        """Without its URLs, which may contain passwords."""
        return "CellStores(…)"


def cells_as_text(given: Any) -> Any:
    """Converts tables `[cells.a]`, with `database_url` and `redis_url`, to the text that the variable would have."""
    if not isinstance(given, Mapping):
        return given
    return ";".join(f"{name}={'|'.join(_urls(name, stores))}" for name, stores in given.items())


def _urls(name: str, stores: Any) -> list[str]:
    if not isinstance(stores, Mapping) or set(stores) - set(_STORES):
        raise ValueError(f"[cells.{name}] has database_url, and redis_url if Redis is its gate")
    return [str(stores[key]) for key in _STORES if stores.get(key)]


CellsText = Annotated[str, BeforeValidator(cells_as_text)]


def parse_cells(text: str) -> dict[str, CellStores]:
    """By name, in the given order."""
    cells: dict[str, CellStores] = {}
    for part in filter(None, map(str.strip, re.split(r"[;\n]", text))):
        name, is_given, urls = part.partition("=")
        database_url, _, redis_url = urls.partition("|")
        if not is_given or not database_url:
            raise SettingsError(_EXAMPLE)
        if _NAME.fullmatch(name) is None:
            raise SettingsError("HOLDFAST_CELLS: a cell's name has 1 to 32 lower-case letters, digits or hyphens")
        if name in cells:
            raise SettingsError(f"HOLDFAST_CELLS: there are two cells named {name}")
        cells[name] = _checked(name, database_url.strip(), redis_url.strip())
    _refuse_shared(cells)
    return cells


def _checked(name: str, database_url: str, redis_url: str) -> CellStores:
    try:
        database_url = with_hosts_as_options(database_url)
        check_database_url(database_url)
        if redis_url:
            parse_redis_url(redis_url)
    except SettingsError as exc:
        message = re.sub(r"^HOLDFAST_\w+:? ?", "", str(exc))
        raise SettingsError(f"HOLDFAST_CELLS: cell {name}: {message}") from exc
    if redis_url and database_url.startswith("sqlite"):
        raise SettingsError(f"HOLDFAST_CELLS: cell {name}: Redis needs PostgreSQL as its ledger")
    return CellStores(database_url, redis_url)


def _refuse_shared(cells: Mapping[str, CellStores]) -> None:
    """Two cells in one database would fail together, and each would treat the other's sales as its own."""
    for key in _STORES:
        urls = [url for url in (getattr(stores, key) for stores in cells.values()) if url]
        if len(set(urls)) < len(urls):
            raise SettingsError(f"HOLDFAST_CELLS: two cells have the same {key}; each needs its own")


def check_cells(text: str, settings: Mapping[str, Any]) -> None:
    cells = parse_cells(text)
    unset = ("", False, "ledger", SecretStr(""))
    beside = [f"HOLDFAST_{name.upper()}" for name in _NOT_WITH_CELLS if settings[name] not in unset]
    if cells and beside:
        raise SettingsError(f"{beside[0]} does not go with HOLDFAST_CELLS; see docs/CELLS.md")
    if settings["database_url"] in [stores.database_url for stores in cells.values()]:
        raise SettingsError("HOLDFAST_CELLS: no cell may be in the control database, HOLDFAST_DATABASE_URL")
