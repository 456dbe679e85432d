"""The processes of the crowd: starts them, says when to begin, hears what they count and what their buyers saw."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from holdfast.bench.processes import clean_environment, python
from holdfast.errors import Unavailable
from holdfast.rush.orders import Beat, Finished, Go, Ready, Seen, Stop, Task, Told
from holdfast.rush.tally import Tally
from holdfast.rush.testimony import Testimony

_LINE_MAX = 64 * 1024 * 1024
_LAST_WORDS = 2_000
_END_S = 10.0


class _Player:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.here = 0
        self.in_line = 0
        self.finished: Finished | None = None

    def tell(self, message: Task | Go | Stop) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def hear(self) -> Told | None:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        return msgspec.json.decode(line, type=Told) if line else None


class Conductor:
    def __init__(self) -> None:
        self._players: list[_Player] = []
        self.tally = Tally()
        self.testimonies: list[Testimony] = []

    @property
    def here(self) -> int:
        return sum(player.here for player in self._players)

    @property
    def in_line(self) -> int:
        return sum(player.in_line for player in self._players)

    @property
    def cpu_s(self) -> float:
        return sum(player.finished.cpu_s for player in self._players if player.finished is not None)

    @property
    def memory_mb(self) -> float:
        return sum(player.finished.memory_mb for player in self._players if player.finished is not None)

    async def prepare(self, tasks: Sequence[Task]) -> int:
        """Until every process is ready; gives how many wallets were filled."""
        for task in tasks:
            process = await asyncio.create_subprocess_exec(
                *python("holdfast.rush.worker"),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                limit=_LINE_MAX, env=clean_environment(),
            )  # fmt: skip
            self._players.append(_Player(process))
            self._players[-1].tell(task)
        answers = [await self._ready(player) for player in self._players]
        return sum(ready.credited for ready in answers)

    async def _ready(self, player: _Player) -> Ready:
        told = await player.hear()
        if not isinstance(told, Ready):
            raise await self._failed(player)
        return told

    async def play(self, go: Go, heard: Callable[[], None]) -> None:
        """Until everyone has ended. `heard` is called whenever there is something new."""
        for player in self._players:
            player.tell(go)
        await asyncio.gather(*(self._follow(player, heard) for player in self._players))

    async def _follow(self, player: _Player, heard: Callable[[], None]) -> None:
        while (told := await player.hear()) is not None:
            if isinstance(told, Beat):
                player.here, player.in_line = told.here, told.in_line
                self.tally.add(told.tally)
                heard()
            elif isinstance(told, Seen):
                self.testimonies += told.testimonies
            elif isinstance(told, Finished):
                player.finished = told
        if player.finished is None:
            raise await self._failed(player)

    def cut_off(self) -> None:
        for player in self._players:
            if player.process.returncode is None:
                player.tell(Stop())

    async def _failed(self, player: _Player) -> Unavailable:
        assert player.process.stderr is not None
        words = (await player.process.stderr.read()).decode(errors="replace")[-_LAST_WORDS:].strip()
        return Unavailable(f"a process of the crowd ended by itself: {words}")

    async def close(self) -> None:
        for player in self._players:
            if player.process.returncode is None:
                player.process.kill()
            async with asyncio.timeout(_END_S):
                await player.process.wait()
