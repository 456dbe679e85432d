"""The model in docs/model: no violation in any interleaving, and one for every guard that is switched off."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "model" / "model.py"
    spec = importlib.util.spec_from_file_location("formal_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


model: Any = _load()


@pytest.mark.parametrize("bounds", [(2, 3, 0, 0), (1, 2, 0, 1), (1, 2, 1, 0)])
def test_nothing_is_violated_in_any_interleaving(bounds: tuple[int, ...]) -> None:
    _, history = model.check(model.Model(model.GUARDS, model.Bounds(*bounds)))
    assert history == []


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(3, 2, 0, 1), (2, 2, 1, 0), (2, 3, 0, 1), (4, 2, 0, 0)])
def test_nothing_is_violated_in_longer_histories(bounds: tuple[int, ...]) -> None:
    _, history = model.check(model.Model(model.GUARDS, model.Bounds(*bounds)))
    assert history == []


@pytest.mark.parametrize("guard", sorted(model.GUARDS - {"claim"}))
def test_each_guard_is_missed_where_it_is_switched_off(guard: str) -> None:
    bounds, about = model.SHOWN_BY[guard]
    _, history = model.check(model.Model(model.GUARDS - {guard}, bounds), about)
    assert history[-1].startswith(about)


@pytest.mark.slow
def test_money_would_be_taken_twice_without_a_claim_in_the_ledger() -> None:
    bounds, about = model.SHOWN_BY["claim"]
    _, history = model.check(model.Model(model.GUARDS - {"claim"}, bounds), about)
    assert history[-1].startswith("I1: 2 were paid for")
