"""The settings of one cell."""

from pydantic import SecretStr

from holdfast.access.cell_stores import parse_cells
from holdfast.errors import SettingsError
from holdfast.settings import Settings


def all_cells(settings: Settings) -> dict[str, Settings]:
    """By name: the same settings with the stores of one cell, and a data directory of its own. All share the keys."""
    found = parse_cells(settings.cells)
    if not found:
        return {}
    keys = {
        "service_key": SecretStr(settings.service_key_text()),
        "buyer_secret": SecretStr("" if settings.buyer_jwks_url else settings.buyer_secret_text()),
        "signing_key": SecretStr(settings.signing_key_text()),
        "cells": "",
    }
    return {
        name: settings.model_copy(
            update={
                **keys,
                "database_url": stores.database_url,
                "redis_url": stores.redis_url,
                "data": settings.data / "cells" / name,
            }
        )
        for name, stores in found.items()
    }


def settings_of(settings: Settings, cell: str) -> Settings:
    cells = all_cells(settings)
    if cell not in cells:
        known = ", ".join(cells) or "none: HOLDFAST_CELLS is not set"
        raise SettingsError(f"there is no cell {cell}; there are: {known}")
    return cells[cell]
