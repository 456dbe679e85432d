"""`holdfast bench edge`: the edge's nginx beside a plain one that serves the same bytes, and the requests that reached
Holdfast.

Both run at the same time with as many workers each, and wrk drives only one of them at any moment. Every request is the
same, which keeps the load generator cheap.
"""

import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import replace

from holdfast.lab.bench.baselines.plain_nginx import plain_nginx
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Report
from holdfast.lab.bench.measure.rounds import Figure, Round, measure
from holdfast.lab.load import wrk
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.machine import machine
from holdfast.lab.load.nginx import nginx_version, running_edge
from holdfast.lab.load.servers import Holdfast, Place, holdfast_server
from holdfast.room.tokens import Pass, Tokens, edge_keys
from holdfast.runtime.signing import SigningKey

FIGURES = 6
ROOM, EMPTY = "bench-room", "bench-empty"
COMPARED = {
    "cache": ("now", "plain_cache"),
    "plain": ("now", "plain"),
    "refused_of_plain": ("refused", "plain"),
    "refused_of_constant": ("refused", "plain_refusal"),
    "sold_out_of_plain": ("sold_out", "plain"),
}
_WARM_UP_S = 1.0


class EdgeReport(Report, frozen=True):
    # By figure: the requests sent, and how many of them Holdfast answered.
    sent: Mapping[str, int] = {}
    reached: Mapping[str, int] = {}

    def body(self) -> dict[str, Any]:
        return super().body() | {"sent": self.sent, "reached_origin": self.reached}

    def notes(self) -> list[str]:
        lines = [
            f"{name}: {self.reached[name]:,} of {self.sent[name]:,} requests reached Holdfast" for name in self.sent
        ]
        return [*super().notes(), *lines]


class EdgeBench:
    def __init__(self, origin: Holdfast, edge: int, connections: int) -> None:
        self._origin, self._edge, self._connections = origin, edge, connections
        self.sent: dict[str, int] = {}
        self.reached: dict[str, int] = {}

    def figure(self, name: str, about: str, request: wrk.Fixed, *, good: bool) -> Figure:
        def run(seconds: float) -> Round:
            wrk.drive_fixed(replace(request, connections=self._connections, seconds=_WARM_UP_S))
            before = self._answered()
            result = wrk.drive_fixed(replace(request, connections=self._connections, seconds=seconds))
            wrong = result.refused if good else result.good
            if wrong or result.failed:
                raise BenchFailed(f"{name}: {result.good} of 2xx, {result.refused} others, {result.failed} broken")
            if request.port == self._edge:
                self.sent[name] = self.sent.get(name, 0) + result.good + result.refused
                # Excludes the reads of the counter themselves.
                self.reached[name] = self.reached.get(name, 0) + max(self._answered() - before - 1, 0)
            return Round(result.per_second)

        return Figure(name, about, run)

    def _answered(self) -> int:
        """The number of requests that Holdfast has answered. It updates the sum a few times a second."""
        time.sleep(0.3)
        return self._origin.requests_answered()


def bench_edge(seconds: float, connections: int) -> EdgeReport:
    if not wrk.is_there():
        raise BenchFailed("bench edge needs wrk: apt-get install wrk")
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * FIGURES).shown())
        with progress.step("starting the servers"):
            # If root starts nginx, its workers run as another user.
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
            directory.chmod(0o755)
            key = SigningKey("bench", secrets.token_hex(20))
            origin = stack.enter_context(
                holdfast_server(Place(directory), HOLDFAST_SIGNING_KEY=f"{key.key_id}:{key.secret}")
            )
            _create_sales(origin)
            edge = stack.enter_context(running_edge(directory, origin.port, edge_keys([key])))
            seen = [_get(edge, f"/v1/sales/{ROOM}/now"), _refused(edge)]
            plain = stack.enter_context(plain_nginx(directory, origin.port, *seen))
        bench = EdgeBench(origin, edge, connections)
        now, forged = f"/v1/sales/{ROOM}/now", {"Holdfast-Pass": _forged(key), "Idempotency-Key": "bench"}
        buy = f"/v1/sales/{ROOM}/purchase"
        figures = [
            bench.figure("now", "`now` from the edge", wrk.Fixed(edge, "GET", now), good=True),
            bench.figure("plain_cache", "`now` from nginx's cache", wrk.Fixed(plain, "GET", now), good=True),
            bench.figure("plain", "the same bytes from a file", wrk.Fixed(plain, "GET", "/now.json"), good=True),
            bench.figure("refused", "forged passes refused", wrk.Fixed(edge, "POST", buy, forged), good=False),
            bench.figure("plain_refusal", "a constant 429", wrk.Fixed(plain, "POST", "/refused", forged), good=False),
            bench.figure(
                "sold_out", "purchases refused", wrk.Fixed(edge, "POST", f"/v1/sales/{EMPTY}/purchase"), good=False
            ),
        ]
        measured = measure(figures, seconds, progress)
        facts = machine(
            ["granian"], nginx=nginx_version(), driver=wrk.version(), connections=connections, seconds=seconds
        )
    return EdgeReport("the edge", measured, COMPARED, facts, sent=bench.sent, reached=bench.reached)


def _create_sales(origin: Holdfast) -> None:
    for sale_id, units, mode in ((ROOM, 1_000, "fifo"), (EMPTY, 0, "off")):
        origin.create_sale(
            {
                "sale_id": sale_id,
                "sku_id": sale_id,
                "name": "Bench",
                "total_units": units,
                "price": {"amount": 100, "currency": "EUR"},
                "starts_at": "2020-01-01T00:00:00Z",
                "payment": "external",
                "room": {"mode": mode},
            }
        )


def _forged(key: SigningKey) -> str:
    """A pass forged with everything correct except the secret."""
    now = int(time.time())
    return Tokens([SigningKey(key.key_id, "f" * 40)]).sign_pass(Pass("eve", ROOM, "ticket", now, now + 3_600))


def _get(port: int, path: str) -> bytes:
    return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False).raise_for_status().content


def _refused(port: int) -> bytes:
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/sales/{ROOM}/purchase", trust_env=False)
    if answer.status_code != 429:
        raise BenchFailed(f"the edge answered {answer.status_code} to a purchase without a pass")
    return answer.content
