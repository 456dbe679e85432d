"""Runs one simulation at a time, and keeps the last result."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from holdfast.errors import HoldfastError, SettingsError
from holdfast.lab.simulation.options import Engine, Fault, Options
from holdfast.lab.simulation.run import NotRunning, Run
from holdfast.lab.simulation.snapshot import Frame, Setup, Snapshot, no_counts
from holdfast.lab.simulation.stores import Stores


class RunsAlready(HoldfastError):
    """Only one run at a time, because two would slow each other down."""


class Simulator:
    def __init__(self, stores: Stores, demo_url: str = "") -> None:
        self._stores = stores
        self._setup = Setup(stores.has_valkey, stores.has_valkey and stores.has_postgres, demo_url)
        # Propose the most instructive engine that can run here.
        options = Options(engine=Engine.REDIS if self._setup.has_postgres else Engine.SQLITE)
        self._idle = Snapshot(options=options, shops=no_counts(has_redis=stores.has_valkey))
        self._is_duplicating = False
        self._run: Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._count = 0

    @property
    def frame(self) -> Frame:
        shown = self._idle if self._run is None else self._run.snapshot
        return Frame(self._setup, replace(shown, is_duplicating=self._is_duplicating))

    def start(self, options: Options) -> int:
        if self._task is not None and not self._task.done():
            raise RunsAlready("A run is under way. Stop it, or wait until it is over.")
        if options.engine is Engine.REDIS and not self._setup.has_postgres:
            raise SettingsError("Redis and PostgreSQL are not installed here: pip install 'holdfast[bench]'.")
        self._count += 1
        self._run = Run(self._stores, options, self._count, is_duplicating=self._is_duplicating)
        self._task = asyncio.create_task(self._run.work())
        return self._count

    def cause(self, fault: Fault) -> None:
        if self._run is None:
            raise NotRunning("Start a run first.")
        self._run.cause(fault)

    def duplicate_clicks(self, *, is_on: bool) -> None:
        """Applies from now on, to this run and to later ones."""
        self._is_duplicating = is_on
        if self._run is not None:
            self._run.duplicate_clicks(is_on=is_on)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def close(self) -> None:
        await self.stop()
        await asyncio.to_thread(self._stores.close)
