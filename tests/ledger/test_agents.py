"""Background work that ends by itself is noticed: in the log, by the readiness of a server, by the end of a worker."""

import asyncio
from pathlib import Path

import pytest
import structlog

from asking_inside import ask_inside
from holdfast.bootstrap.services import open_services
from holdfast.cli.commands import worker
from holdfast.errors import EngineError
from holdfast.gate.expirer import Expirer
from holdfast.runtime.agent import Agent, Agents
from holdfast.settings import Settings

WITHIN_S = 60.0


async def do_nothing() -> None:
    pass


def defect(_: object) -> float:
    raise RuntimeError("defect")


def steady() -> Agent[None]:
    return Agent("steady", do_nothing, 60.0)


def frail(*_: object) -> Agent[None]:
    """One whose loop itself fails, which no agent of ours does."""
    return Agent("frail", do_nothing, 60.0, rest_s=defect)


async def test_an_agent_that_ends_by_itself_is_logged_and_named() -> None:
    agents = Agents()
    with structlog.testing.capture_logs() as logged:
        agents.start(steady())
        agents.start(frail())
        await asyncio.wait_for(agents.first_end.wait(), WITHIN_S)
        assert agents.ended == ["frail"]
        await agents.stop()
    assert [(line["event"], line["agent"]) for line in logged] == [("background_task_stopped", "frail")]


async def test_agents_that_are_told_to_stop_have_not_ended_by_themselves() -> None:
    agents = Agents()
    agents.start(steady())
    with structlog.testing.capture_logs() as logged:
        await agents.stop()
    assert (agents.ended, logged) == ([], [])


async def test_a_server_whose_background_work_has_ended_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_services(Settings(data=tmp_path), background=True) as holdfast:
        assert (await ask_inside(holdfast, "GET", "/healthz/ready")).status == 200
    monkeypatch.setattr(Expirer, "agent", frail)
    async with open_services(Settings(data=tmp_path), background=True) as holdfast:
        await asyncio.wait_for(holdfast.agents.first_end.wait(), WITHIN_S)
        answer = await ask_inside(holdfast, "GET", "/healthz/ready")
    assert answer.status == 503
    assert b"frail" in answer.body


async def test_a_worker_whose_work_has_ended_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expirer, "agent", frail)
    with pytest.raises(EngineError, match="frail"):
        await asyncio.wait_for(worker._work(Settings(data=tmp_path)), WITHIN_S)
