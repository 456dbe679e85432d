"""The buyers of one process: generators that are resumed when they are due, on a few hundred connections.

An open loop: a buyer acts on schedule whether or not the server keeps up, and latency counts from that moment,
including the wait for this process or for a free connection. One heap holds every buyer waiting for a point in time; a
buyer waiting for a response is referenced by the request alone.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

import altcha
import msgspec

from holdfast.lab.load.client import LoadClient, Queue, Reply
from holdfast.lab.load.http import Request, Response
from holdfast.lab.rush.buyers.actions import Pause, Script, Solve, Step, Together, body_of
from holdfast.lab.rush.buyers.bots import visit
from holdfast.lab.rush.buyers.buyer import Buyer
from holdfast.lab.rush.buyers.edge_cache import EdgeCache
from holdfast.lab.rush.buyers.record import BuyerRecord, Ending
from holdfast.lab.rush.buyers.source import Source, source_of
from holdfast.lab.rush.buyers.tally import ATTEMPT, Tally

_SHORTEST_SLEEP_S = 0.001
# While this many requests wait for a connection, new arrivals stay plain numbers and get no generator yet.
_WAITING_MAX = 512
# The steps of browsers that have no connection yet.
_NEWCOMERS = frozenset({Step.OPEN, Step.CHALLENGE, Step.JOIN})
_LOOKS = frozenset({Step.OPEN, Step.NOW})


class _ActiveBuyer:
    """`due_at` is when the buyer wanted to act."""

    __slots__ = ("due_at", "is_gone", "missing", "record", "responses", "script")

    def __init__(self, record: BuyerRecord, script: Script[None], due_at: float) -> None:
        self.record, self.script, self.due_at = record, script, due_at
        self.responses: list[Response | None] = []
        self.missing = 0
        self.is_gone = False


class BuyerSimulator:
    def __init__(
        self, client: LoadClient, starts_at: float, make_buyer: Callable[[int], Buyer], *, edge_cache: bool
    ) -> None:
        self._client = client
        self._starts_at = starts_at
        self._make_buyer = make_buyer
        self._edge = EdgeCache(self._send, monotonic) if edge_cache else None
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, _ActiveBuyer | int]] = []
        self._arrived: deque[tuple[int, float]] = deque()
        self._order = count()
        self._solver = ThreadPoolExecutor(1, "proofs")
        self._timer: asyncio.TimerHandle | None = None
        self._expected = 0
        self._active: dict[int, _ActiveBuyer] = {}
        self.done = self._loop.create_future()
        self.tally = Tally()
        self.records: list[BuyerRecord] = []

    def begin(self, arrivals: Sequence[tuple[int, float]]) -> None:
        """Takes buyers' numbers and arrival times, in seconds after the start."""
        self._expected = len(arrivals)
        self._heap = [(self._starts_at + at_s, next(self._order), number) for number, at_s in arrivals]
        heapq.heapify(self._heap)
        self._tick()
        self._end_if_empty()

    def cut_off(self) -> None:
        """Ends every visit; the records hold everything seen so far."""
        self._record_unserved()
        for active in list(self._active.values()):
            active.script.close()
            self._leave(active, Ending.CUT_OFF)
        self._expected = len(self.records)
        self._end_if_empty()

    def _record_unserved(self) -> None:
        """Also records buyers who never got to send a request."""
        numbers = [number for number, _ in self._arrived] + [due for _, _, due in self._heap if isinstance(due, int)]
        self._arrived.clear()
        self._heap.clear()
        for number in numbers:
            self._end(self._make_buyer(number).record, Ending.CUT_OFF)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._solver.shutdown(wait=False, cancel_futures=True)

    def _tick(self) -> None:
        now = monotonic()
        while self._heap and self._heap[0][0] <= now:
            due_at, _, due = heapq.heappop(self._heap)
            if isinstance(due, int):
                self._arrived.append((due, due_at))
            else:
                due.due_at = due_at
                self._resume(due, None)
        self._admit()
        self._wake_in(self._heap[0][0] - monotonic() if self._heap else None)

    def _admit(self) -> None:
        """Turns arrivals into buyers as long as a connection will soon be free for them."""
        while self._arrived and self._client.waiting < _WAITING_MAX:
            self._arrive(*self._arrived.popleft())

    def _wake_in(self, seconds: float | None) -> None:
        self._timer = None if seconds is None else self._loop.call_later(max(seconds, _SHORTEST_SLEEP_S), self._tick)

    def _arrive(self, number: int, due_at: float) -> None:
        buyer = self._make_buyer(number)
        buyer.record.arrived_at = due_at
        active = _ActiveBuyer(buyer.record, visit(buyer), due_at)
        self._active[number] = active
        self._count("arrived", due_at)
        self._resume(active, None)

    def _resume(self, active: _ActiveBuyer, sent: Any) -> None:
        try:
            action = active.script.send(sent)
        except StopIteration:
            self._leave(active)
            return
        if isinstance(action, Request):
            self._request(action, active.due_at, lambda response: self._answer(active, response))
        elif isinstance(action, Pause):
            self._sleep(active, monotonic() + action.seconds)
        elif isinstance(action, Together):
            self._request_together(active, action)
        else:
            self._solve(active, action)

    def _answer(self, active: _ActiveBuyer, response: Response) -> None:
        _note_source(active.record, response)
        active.due_at = response.at
        if not active.is_gone:
            self._resume(active, response)

    def _sleep(self, active: _ActiveBuyer, until: float) -> None:
        is_first = not self._heap or until < self._heap[0][0]
        heapq.heappush(self._heap, (until, next(self._order), active))
        if is_first:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_in(until - monotonic())

    def _request(self, request: Request, due_at: float, reply: Reply) -> None:
        if request.step is ATTEMPT:
            self._count("attempts", due_at)
        if request.step in _LOOKS:
            self._count("looks", due_at)
            if self._edge is not None:
                # Deferred, because a cached response would resume a generator that is still running.
                self._loop.call_soon(self._edge.get, request, due_at, reply)
                return
        self._send(request, due_at, reply)

    def _send(self, request: Request, due_at: float, reply: Reply) -> None:
        if request.step in _LOOKS and self._edge is not None:
            # A cache has its own connections to the server.
            queue = Queue.FIRST
        else:
            queue = Queue.NEWCOMERS if request.step in _NEWCOMERS else Queue.USUAL
        self._client.send(request, due_at, lambda response: self._answered(request, response, reply), queue)

    def _answered(self, request: Request, response: Response, reply: Reply) -> None:
        self._count("requests", response.at)
        name = f"{request.step} {response.status}"
        self.tally.statuses[name] = self.tally.statuses.get(name, 0) + 1
        source = source_of(response)
        self._count(f"from {source}", response.at)
        name = f"{request.step} {source} {response.status}"
        self.tally.sources[name] = self.tally.sources.get(name, 0) + 1
        if response.status:
            self.tally.record(request.step, response.at - self._starts_at, response.at - response.due_at)
        if request.step is ATTEMPT:
            is_granted = response.status in (200, 201)
            reason = "granted" if is_granted else f"refused {body_of(response).reason or 'no_answer'}"
            self._count(reason, response.at)
        reply(response)
        if self._arrived:
            self._admit()

    def _request_together(self, active: _ActiveBuyer, together: Together) -> None:
        active.responses = [None] * len(together.requests)
        active.missing = len(together.requests)
        for index, request in enumerate(together.requests):
            self._request(request, active.due_at, partial(self._answer_one, active, index))

    def _answer_one(self, active: _ActiveBuyer, index: int, response: Response) -> None:
        _note_source(active.record, response)
        active.responses[index] = response
        active.missing -= 1
        if not active.missing and not active.is_gone:
            active.due_at, responses, active.responses = response.at, active.responses, []
            self._resume(active, responses)

    def _solve(self, active: _ActiveBuyer, action: Solve) -> None:
        def done(work: "asyncio.Future[str]") -> None:
            if not work.cancelled() and not active.is_gone:
                active.due_at = monotonic()
                self._resume(active, work.result())

        self._loop.run_in_executor(self._solver, solve, action.challenge).add_done_callback(done)

    def _leave(self, active: _ActiveBuyer, ending: Ending | None = None) -> None:
        active.is_gone = True
        del self._active[active.record.number]
        self._end(active.record, ending)
        self._end_if_empty()

    def _end(self, record: BuyerRecord, ending: Ending | None = None) -> None:
        """A buyer may have an ending already and have continued with another card; being cut off replaces it."""
        record.ended_at, record.ending = monotonic(), ending or record.ending
        self.records.append(record)
        self._count("ended", record.ended_at)
        self._count(f"ending {record.ending}", record.ended_at)

    def _end_if_empty(self) -> None:
        if len(self.records) >= self._expected and not self.done.done():
            self.done.set_result(None)

    def _count(self, name: str, at: float) -> None:
        self.tally.count(name, at - self._starts_at)


def _note_source(record: BuyerRecord, response: Response) -> None:
    source = source_of(response)
    if source is not Source.NOBODY:
        record.answered_by = source
        record.reached_origin |= source is Source.ORIGIN


def solve(challenge: bytes) -> str:
    given = altcha.Challenge.from_dict(msgspec.json.decode(challenge))
    solution = altcha.solve_challenge(given)
    return "" if solution is None else altcha.Payload(given, solution).to_base64()
