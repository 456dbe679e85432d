"""Runs clients/contract.json, the scenarios that every client must pass, with the Python client."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.client import Problem

FILE = Path(__file__).parents[2] / "clients" / "contract.json"
SCENARIOS: list[dict[str, Any]] = json.loads(FILE.read_text())["scenarios"]
# Does one call of one caller; the callers are `service`, `anyone`, and buyers by name.
Caller = Callable[[str, str, list[str], dict[str, Any]], Any]


def run_scenario(scenario: dict[str, Any], run: str, call: Caller) -> None:
    saved = {"run": run}
    for step in scenario["steps"]:
        _run_step(_filled(step, saved), saved, call)


def _run_step(step: dict[str, Any], saved: dict[str, str], call: Caller) -> None:
    name = step.get("call") or step.get("each") or "wait_for"
    path = step.get("path", []) or ([step["wait_for"]] if "wait_for" in step else [])
    if "problem" in step:
        with pytest.raises(Problem) as refused:
            call(step["as"], name, path, step.get("args", {}))
        _check_problem(refused.value, step)
        return
    answer = call(step["as"], name, path, step.get("args", {}))
    if "items" in step:
        assert len(list(answer)) == step["items"], step
        return
    plain = msgspec.to_builtins(answer)
    for field, value in (step.get("expect") or {}).items():
        assert plain[field] == value, (step, plain)
    if step.get("expect", ...) is None:
        assert answer is None, step
    saved |= {kept: str(_at(plain, place)) for kept, place in step.get("save", {}).items()}


def _check_problem(problem: Problem, step: dict[str, Any]) -> None:
    assert (problem.reason, problem.status) == (step["problem"], step["status"])
    assert problem.retryable is step.get("retryable", problem.retryable)
    for name, value in step.get("members", {}).items():
        assert problem.members[name] == value


def _at(plain: Any, place: str) -> Any:
    for part in place.split("."):
        plain = plain[int(part)] if isinstance(plain, list) else plain[part]
    return plain


def _filled(part: Any, saved: dict[str, str]) -> Any:
    if isinstance(part, str):
        for name, value in saved.items():
            part = part.replace(f"{{{name}}}", value)
        return part
    if isinstance(part, dict):
        return {name: _filled(value, saved) for name, value in part.items()}
    return [_filled(value, saved) for value in part] if isinstance(part, list) else part


def is_time(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None
