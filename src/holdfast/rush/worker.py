"""One process of the crowd: `python -m holdfast.rush.worker`, told what to do on stdin. Ends when its stdin does."""

import asyncio
import gc
import os
import resource
import sys
from random import Random
from time import monotonic

import msgspec
import uvloop

from holdfast.rush.arrivals import arrivals
from holdfast.rush.crowd import Crowd
from holdfast.rush.orders import Beat, Finished, Go, Ready, Seen, Stop, Task, Told
from holdfast.rush.plan import Plan, Planner
from holdfast.rush.tally import Tally
from holdfast.rush.testimony import Testimony
from holdfast.rush.tokens import Tokens
from holdfast.rush.visitor import Offer, Surroundings, Visitor
from holdfast.rush.wallets import credit_all, purse
from holdfast.rush.wire import Wire

BEAT_S = 0.5
CHUNK = 500
# A crowd beside others, as in a demo, gives way to them.
_NICE = 10
_LINE_MAX = 64 * 1024 * 1024


class Worker:
    def __init__(self, task: Task, wire: Wire) -> None:
        self._task, self._wire = task, wire
        self._planner = Planner(task.scenario, task.seed)
        crowd = task.scenario.crowd
        chance = Random(f"jitter {task.seed} {task.part}").random
        self._around = Surroundings(
            monotonic, chance, Tokens(task.buyer_secret), task.service_key, crowd.patience_seconds, crowd.takes_fewer
        )
        self._offers: list[Offer] = []

    @property
    def numbers(self) -> range:
        return range(self._task.part, self._task.users, self._task.parts)

    async def fill_wallets(self) -> int:
        sale = self._task.scenario.sale
        if sale.payment != "wallet":
            return 0
        purses = ((self._task.buyer_id(number), self._purse(self._planner.plan(number))) for number in self.numbers)
        return await credit_all(self._wire, self._task.service_key, sale.currency, purses)

    def _purse(self, plan: Plan) -> int:
        return purse(self._task.scenario.sale.price, plan.quantity, is_declined=plan.declined)

    def crowd(self, go: Go) -> Crowd:
        self._offers = go.offers
        arrival = self._task.scenario.arrival
        times = arrivals(arrival.shape, self._task.users, arrival.over_seconds, self._task.seed)
        crowd = Crowd(self._wire, go.starts_at, self._visitor, edge_cache=self._task.scenario.crowd.edge_cache)
        crowd.begin([(number, times[number]) for number in self.numbers])
        return crowd

    def _visitor(self, number: int) -> Visitor:
        plan = self._planner.plan(number)
        credited = self._purse(plan) if self._offers[plan.product].payment == "wallet" else 0
        testimony = Testimony(number, self._task.buyer_id(number), plan.product, plan.bot, credited=credited)
        return Visitor(testimony, plan, self._offers[plan.product], self._around)


def say(told: Told) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


async def beat(crowd: Crowd, wire: Wire) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        _tell_tally(crowd, wire)


def _tell_tally(crowd: Crowd, wire: Wire) -> None:
    tally, crowd.tally = crowd.tally, Tally()
    say(Beat(tally, crowd.here, wire.in_line))


async def cut_off_at_end(stdin: asyncio.StreamReader, crowd: Crowd) -> None:
    """When told so, or when whoever started us is gone."""
    line = await stdin.readline()
    if line:
        msgspec.json.decode(line, type=Stop)
    crowd.cut_off()


async def play(crowd: Crowd, wire: Wire, stdin: asyncio.StreamReader) -> None:
    beside = [asyncio.create_task(beat(crowd, wire)), asyncio.create_task(cut_off_at_end(stdin, crowd))]
    await crowd.done
    for task in beside:
        task.cancel()
    crowd.close()
    _tell_tally(crowd, wire)
    for first in range(0, len(crowd.testimonies), CHUNK):
        say(Seen(crowd.testimonies[first : first + CHUNK]))
    used = resource.getrusage(resource.RUSAGE_SELF)
    say(Finished(round(used.ru_utime + used.ru_stime, 2), round(used.ru_maxrss / 1024, 1)))


async def main() -> None:
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=_LINE_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin.buffer)
    task = msgspec.json.decode(await stdin.readline(), type=Task)
    if task.is_nice:
        os.nice(_NICE)
    wire = Wire(task.host, task.port, task.connections)
    worker = Worker(task, wire)
    say(Ready(await worker.fill_wallets()))
    line = await stdin.readline()
    if line:
        await play(worker.crowd(msgspec.json.decode(line, type=Go)), wire, stdin)
    wire.close()


if __name__ == "__main__":
    # Nothing here is a cycle that grows, and to look for some among a hundred thousand frames takes its time.
    gc.disable()
    uvloop.run(main())
