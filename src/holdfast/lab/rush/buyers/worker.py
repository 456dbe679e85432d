"""One worker process: `python -m holdfast.lab.rush.buyers.worker`. It reads its task from stdin, and exits when stdin
closes."""

import asyncio
import gc
import os
import resource
import sys
from random import Random
from time import monotonic

import msgspec
import uvloop

from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.client import LoadClient
from holdfast.lab.rush.buyers.arrivals import arrivals
from holdfast.lab.rush.buyers.behaviour import Behaviour, BehaviourPlanner
from holdfast.lab.rush.buyers.buyer import Buyer, BuyerContext, Offer
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.simulator import BuyerSimulator
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.buyers.wallets import credit_all, wallet_amount
from holdfast.lab.rush.buyers.worker_messages import Counted, Finished, Ready, Records, Start, Stop, Task, WorkerMessage

REPORT_EVERY_S = 0.5
RECORDS_PER_MESSAGE = 500
# Keeps a demo's buyers from slowing down its server.
_NICE = 10
_LINE_MAX = 64 * 1024 * 1024


class Worker:
    def __init__(self, task: Task, client: LoadClient) -> None:
        self._task, self._client = task, client
        self._planner = BehaviourPlanner(task.scenario, task.seed)
        crowd = task.scenario.crowd
        chance = Random(f"jitter {task.seed} {task.part}").random
        tokens = BuyerTokens(task.buyer_secret, task.buyer_claims)
        self._context = BuyerContext(
            monotonic, chance, tokens, task.service_key, crowd.patience_seconds, crowd.takes_fewer
        )
        self._offers: list[Offer] = []

    @property
    def numbers(self) -> range:
        return range(self._task.part, self._task.users, self._task.parts)

    async def credit_wallets(self) -> int:
        sale = self._task.scenario.sale
        if sale.payment != "wallet":
            return 0
        wallets = ((self._task.buyer_id(number), self._amount(self._planner.plan(number))) for number in self.numbers)
        return await credit_all(self._client, self._task.service_key, sale.currency, wallets)

    def _amount(self, behaviour: Behaviour) -> int:
        return wallet_amount(self._task.scenario.sale.price, behaviour.quantity, is_declined=behaviour.declined)

    def simulate(self, start: Start) -> BuyerSimulator:
        self._offers = start.offers
        scenario = self._task.scenario
        times = arrivals(scenario.arrival.shape, self._task.users, scenario.arrival.over_seconds, self._task.seed)
        buyers = BuyerSimulator(self._client, start.starts_at, self._buyer, edge_cache=scenario.crowd.edge_cache)
        buyers.begin([(number, times[number]) for number in self.numbers])
        return buyers

    def _buyer(self, number: int) -> Buyer:
        behaviour = self._planner.plan(number)
        offer = self._offers[behaviour.product]
        credited = self._amount(behaviour) if offer.payment == "wallet" else 0
        buyer_id = self._task.buyer_id(number)
        record = BuyerRecord(number, buyer_id, behaviour.product, behaviour.bot, credited=credited)
        return Buyer(record, behaviour, offer, self._context)


def send(message: WorkerMessage) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


async def report_counts(buyers: BuyerSimulator, client: LoadClient) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        _send_counts(buyers, client)


def _send_counts(buyers: BuyerSimulator, client: LoadClient) -> None:
    tally, buyers.tally = buyers.tally, Tally()
    send(Counted(tally, client.waiting))


async def cut_off_on_stop(stdin: asyncio.StreamReader, buyers: BuyerSimulator) -> None:
    """Ends all visits on a Stop message, or when the parent process is gone."""
    line = await stdin.readline()
    if line:
        msgspec.json.decode(line, type=Stop)
    buyers.cut_off()


async def run(buyers: BuyerSimulator, client: LoadClient, stdin: asyncio.StreamReader) -> None:
    tasks = [asyncio.create_task(report_counts(buyers, client)), asyncio.create_task(cut_off_on_stop(stdin, buyers))]
    await buyers.done
    for task in tasks:
        task.cancel()
    buyers.close()
    _send_counts(buyers, client)
    for first in range(0, len(buyers.records), RECORDS_PER_MESSAGE):
        send(Records(buyers.records[first : first + RECORDS_PER_MESSAGE]))
    used = resource.getrusage(resource.RUSAGE_SELF)
    send(Finished(round(used.ru_utime + used.ru_stime, 2), round(used.ru_maxrss / 1024, 1)))


async def main() -> None:
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=_LINE_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin.buffer)
    task = msgspec.json.decode(await stdin.readline(), type=Task)
    if task.is_nice:
        os.nice(_NICE)
    client = LoadClient(task.host, task.port, task.connections)
    worker = Worker(task, client)
    send(Ready(await worker.credit_wallets()))
    line = await stdin.readline()
    if line:
        await run(worker.simulate(msgspec.json.decode(line, type=Start)), client, stdin)
    client.close()


if __name__ == "__main__":
    # The process creates few cycles, and scanning a hundred thousand frames for them is slow.
    gc.disable()
    uvloop.run(main())
