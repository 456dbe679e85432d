"""Background work that ends by itself is noticed: in the log, by the readiness of a server, by the end of a worker."""

import asyncio
from pathlib import Path

import pytest
import structlog

from asking_inside import ask_inside
from holdfast.bootstrap import open_house
from holdfast.cli import worker
from holdfast.errors import EngineError
from holdfast.settings import Settings
from holdfast.settlement.agents import Agents
from holdfast.settlement.expire import Expirer

WITHIN_S = 60.0


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise RuntimeError("defect")


async def test_an_agent_that_ends_by_itself_is_logged_and_named() -> None:
    agents = Agents()
    with structlog.testing.capture_logs() as logged:
        agents.start("steady", for_ever())
        agents.start("frail", fail())
        await asyncio.wait_for(agents.first_end.wait(), WITHIN_S)
        assert agents.ended == ["frail"]
        await agents.stop()
    assert [(line["event"], line["agent"]) for line in logged] == [("agent_ended", "frail")]


async def test_agents_that_are_told_to_stop_have_not_ended_by_themselves() -> None:
    agents = Agents()
    agents.start("steady", for_ever())
    with structlog.testing.capture_logs() as logged:
        await agents.stop()
    assert (agents.ended, logged) == ([], [])


async def test_a_server_whose_background_work_has_ended_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(Settings(data=tmp_path), background=True) as house:
        assert (await ask_inside(house, "GET", "/healthz/ready")).status == 200
    monkeypatch.setattr(Expirer, "run", lambda _: fail())
    async with open_house(Settings(data=tmp_path), background=True) as house:
        await asyncio.wait_for(house.agents.first_end.wait(), WITHIN_S)
        answer = await ask_inside(house, "GET", "/healthz/ready")
    assert answer.status == 503
    assert b"expirer" in answer.body


async def test_a_worker_whose_work_has_ended_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expirer, "run", lambda _: fail())
    with pytest.raises(EngineError, match="expirer"):
        await asyncio.wait_for(worker._work(Settings(data=tmp_path)), WITHIN_S)
