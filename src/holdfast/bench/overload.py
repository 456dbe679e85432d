"""Ten times as many purchases as can be served, by an open loop: what is still sold, and what the others are told.

The storm does not wait for answers: buyers come when they are due, whatever became of the others. Each takes a
connection that is free; who finds none for two seconds gives up, as people do. So the server meets as many at once as
there are connections, and more behind them. What is under way when the storm ends is not counted.
"""

import itertools
import resource
from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.bench import driver
from holdfast.bench.contenders import Holdfast, Shot, check_taken
from holdfast.bench.failure import BenchFailed
from holdfast.bench.load import BUYER, Answers, Load
from holdfast.bench.rounds import Figure, Round
from holdfast.domain.pool import MAX_TOTAL_UNITS

TIMES = 10
# For each connection at ease; in all, no more than these.
STORM_TIMES, STORM_CONNECTIONS = 8, 2_048
PATIENCE_S = 2.0
# A storm's first moments are unlike the rest of it.
STORM_LEAST_S = 1.0
# Five times the rate at which other latencies are measured, and about as many as could be sold: beyond what server and
# driver can do on the same two cores, an open loop measures its own line only.
SOLD_OUT_RATE = 5_000
_TOLD = frozenset({201, 503})


def connections_at_most(wanted: int) -> int:
    """Driver and server each need a file for every connection, and a few besides."""
    return max(64, min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


class OverloadBench:
    def __init__(self, server: Holdfast, secret: str, connections: int) -> None:
        self._server, self._secret, self._connections = server, secret, connections
        self._numbers: Iterator[int] = itertools.count(1)
        self._peak = 0.0
        self.asked = 0
        self.shed = 0

    def figures(self) -> list[Figure]:
        """In this order: the storm is ten times what was served at ease just before."""
        about = f"purchases sold while {TIMES} times as many come, open loop"
        return [
            Figure("refusals", "purchases over HTTP when all is sold, each of another buyer", self._refused),
            Figure("purchases", "purchases over HTTP, each of another buyer", self._at_ease),
            Figure("overload", about, self._in_storm),
        ]

    def _refused(self, seconds: float) -> Round:
        answers = self._drive(replace(self._purchases(0).load, connections=self._connections, seconds=seconds))
        if set(answers.statuses) != {409} or answers.failed:
            raise BenchFailed(f"refusals: wanted 409 only, got {answers.statuses} and {answers.failed} broken")
        return Round(answers.per_second)

    def _at_ease(self, seconds: float) -> Round:
        shot = self._purchases(MAX_TOTAL_UNITS)
        answers = self._drive(replace(shot.load, connections=self._connections, seconds=seconds))
        shot.verify("purchases", answers)
        self._peak = answers.per_second
        return Round(self._peak)

    def _in_storm(self, seconds: float) -> Round:
        shot = self._purchases(MAX_TOTAL_UNITS)
        storm = replace(shot.load, rate_per_second=TIMES * self._peak, patience_s=PATIENCE_S)
        connections = connections_at_most(min(STORM_TIMES * self._connections, STORM_CONNECTIONS))
        answers = self._drive(replace(storm, connections=connections, seconds=max(seconds, STORM_LEAST_S)))
        if not _TOLD.issuperset(answers.statuses) or answers.failed:
            raise BenchFailed(f"overload: wanted 201 and 503 only, got {answers.statuses} and {answers.failed} broken")
        shot.check(answers)
        return Round(answers.good / answers.elapsed_s)

    def sold_out(self, bare_port: int) -> list[Figure]:
        """In turns with a handler that only answers: what that one takes is the driver's and the machine's time."""
        about = f"empty pool, open loop at {SOLD_OUT_RATE:,} purchases/s"
        return [
            Figure("sold_out", about, lambda seconds: self._paced(self._purchases(0).load, {409, 503}, seconds)),
            Figure("sold_out_bare", "the same of a bare RSGI handler", lambda s: self._paced_bare(bare_port, s)),
        ]

    def _paced_bare(self, port: int, seconds: float) -> Round:
        return self._paced(replace(self._load("bare"), port=port), {200}, seconds)

    def _paced(self, load: Load, wanted: set[int], seconds: float) -> Round:
        paced = replace(load, rate_per_second=SOLD_OUT_RATE, connections=self._connections, seconds=seconds)
        answers = self._drive(paced)
        if not wanted.issuperset(answers.statuses) or answers.failed:
            raise BenchFailed(f"sold_out: wanted {wanted}, got {answers.statuses} and {answers.failed} broken")
        return Round(answers.per_second, answers.latency)

    def _drive(self, load: Load) -> Answers:
        answers = driver.drive(load)
        self.asked += answers.good + answers.refused
        self.shed += answers.statuses.get(503, 0)
        return answers

    def _purchases(self, units: int) -> Shot:
        sale_id = f"storm-{next(self._numbers)}"
        self._server.create_sale(
            {
                "sale_id": sale_id,
                "sku_id": sale_id,
                "name": "Storm",
                "total_units": units,
                "price": {"amount": 100, "currency": "EUR"},
                "starts_at": "2020-01-01T00:00:00Z",
                "hold_seconds": 1_800,
                "payment": "external",
            }
        )
        return Shot(self._load(sale_id), 201, lambda answers: check_taken(sale_id, answers, self._server.held(sale_id)))

    def _load(self, sale_id: str) -> Load:
        path = f"/v1/sales/{sale_id}/purchase"
        return Load(self._server.port, "POST", path, '{"quantity":1}', BUYER, buyer_secret=self._secret, keyed=True)
