"""Starts the worker processes, tells them when to begin, and merges their counts and records."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from holdfast.errors import Unavailable
from holdfast.lab.load.processes import clean_environment, python
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.buyers.worker_messages import Counted, Finished, Ready, Records, Start, Stop, Task, WorkerMessage

_LINE_MAX = 64 * 1024 * 1024
_STDERR_SHOWN = 2_000
_END_S = 10.0


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.waiting = 0
        self.finished: Finished | None = None

    def send(self, message: Task | Start | Stop) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def receive(self) -> WorkerMessage | None:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        return msgspec.json.decode(line, type=WorkerMessage) if line else None


class WorkerPool:
    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self.tally = Tally()
        self.records: list[BuyerRecord] = []

    @property
    def waiting(self) -> int:
        """The number of requests waiting for a connection."""
        return sum(worker.waiting for worker in self._workers)

    @property
    def cpu_s(self) -> float:
        return sum(worker.finished.cpu_s for worker in self._workers if worker.finished is not None)

    @property
    def memory_mb(self) -> float:
        return sum(worker.finished.memory_mb for worker in self._workers if worker.finished is not None)

    async def start(self, tasks: Sequence[Task]) -> int:
        """Waits until every process is ready; returns the number of credited wallets."""
        for task in tasks:
            process = await asyncio.create_subprocess_exec(
                *python("holdfast.lab.rush.buyers.worker"),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                limit=_LINE_MAX, env=clean_environment(),
            )  # fmt: skip
            self._workers.append(_Worker(process))
            self._workers[-1].send(task)
        return sum([await self._ready(worker) for worker in self._workers])

    async def _ready(self, worker: _Worker) -> int:
        message = await worker.receive()
        if not isinstance(message, Ready):
            raise await self._failed(worker)
        return message.credited

    async def run(self, start: Start, on_change: Callable[[], None]) -> None:
        """Runs until every buyer's visit has ended."""
        for worker in self._workers:
            worker.send(start)
        await asyncio.gather(*(self._follow(worker, on_change) for worker in self._workers))

    async def _follow(self, worker: _Worker, on_change: Callable[[], None]) -> None:
        while (message := await worker.receive()) is not None:
            if isinstance(message, Counted):
                worker.waiting = message.waiting
                self.tally.add(message.tally)
                on_change()
            elif isinstance(message, Records):
                self.records += message.records
            elif isinstance(message, Finished):
                worker.finished = message
        if worker.finished is None:
            raise await self._failed(worker)

    def cut_off(self) -> None:
        for worker in self._workers:
            if worker.process.returncode is None:
                worker.send(Stop())

    async def _failed(self, worker: _Worker) -> Unavailable:
        assert worker.process.stderr is not None
        stderr = (await worker.process.stderr.read()).decode(errors="replace")[-_STDERR_SHOWN:].strip()
        return Unavailable(f"a worker process failed: {stderr}")

    async def close(self) -> None:
        for worker in self._workers:
            if worker.process.returncode is None:
                worker.process.kill()
            async with asyncio.timeout(_END_S):
                await worker.process.wait()
