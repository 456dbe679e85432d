"""An open loop at ten times the sustainable purchase rate: how many purchases still succeed, and how the rest are
refused.

Buyers arrive on schedule, whether or not others were answered. Each takes a free connection, and gives up after two
seconds without one. So the server has as many concurrent requests as there are connections, and more queue up behind
them. Requests in flight when the storm ends are not counted.
"""

import resource

from msgspec.structs import replace

from holdfast.lab.bench.measure.rounds import Figure, Round
from holdfast.lab.load import driver
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.servers import Holdfast
from holdfast.lab.load.spec import Load, LoadResult

TIMES = 10
# The storm's connections: a multiple of the normal number, and the maximum.
STORM_TIMES, STORM_CONNECTIONS = 8, 2_048
PATIENCE_S = 2.0
# Long enough to outweigh the storm's start, which differs from the rest.
STORM_LEAST_S = 1.0
# Five times the rate of the other latency measurements, and about the highest rate at which units could be sold: beyond
# what server and driver can do on the same two cores, an open loop only measures its own queue.
SOLD_OUT_RATE = 5_000
_EXPECTED = frozenset({201, 503})


def connections_at_most(wanted: int) -> int:
    """Driver and server each need a file descriptor per connection, plus a few more."""
    return max(64, min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


class OverloadBench:
    def __init__(self, server: Holdfast, connections: int) -> None:
        self._server, self._connections = server, connections
        self._peak = 0.0
        self.asked = 0
        self.shed = 0

    def figures(self) -> list[Figure]:
        """The order matters: the storm is ten times the rate measured just before."""
        about = f"purchases sold while {TIMES} times as many come, open loop"
        return [
            Figure("refusals", "purchases over HTTP when all is sold, each of another buyer", self._refused),
            Figure("purchases", "purchases over HTTP, each of another buyer", self._at_ease),
            Figure("overload", about, self._in_storm),
        ]

    def _refused(self, seconds: float) -> Round:
        result = self._drive(
            replace(self._server.purchases(units=0).load, connections=self._connections, seconds=seconds)
        )
        if set(result.statuses) != {409} or result.failed:
            raise BenchFailed(f"refusals: wanted 409 only, got {result.statuses} and {result.failed} broken")
        return Round(result.per_second)

    def _at_ease(self, seconds: float) -> Round:
        checked = self._server.purchases()
        result = self._drive(replace(checked.load, connections=self._connections, seconds=seconds))
        checked.verify("purchases", result)
        self._peak = result.per_second
        return Round(self._peak)

    def _in_storm(self, seconds: float) -> Round:
        checked = self._server.purchases()
        storm = replace(checked.load, rate_per_second=TIMES * self._peak, patience_s=PATIENCE_S)
        connections = connections_at_most(min(STORM_TIMES * self._connections, STORM_CONNECTIONS))
        result = self._drive(replace(storm, connections=connections, seconds=max(seconds, STORM_LEAST_S)))
        if not _EXPECTED.issuperset(result.statuses) or result.failed:
            raise BenchFailed(f"overload: wanted 201 and 503 only, got {result.statuses} and {result.failed} broken")
        checked.check(result)
        return Round(result.good / result.elapsed_s)

    def sold_out(self, bare_port: int) -> list[Figure]:
        """Interleaved with a bare handler, whose latency is that of the driver and the machine."""
        about = f"empty pool, open loop at {SOLD_OUT_RATE:,} purchases/s"
        return [
            Figure(
                "sold_out",
                about,
                lambda seconds: self._paced(self._server.purchases(units=0).load, {409, 503}, seconds),
            ),
            Figure("sold_out_bare", "the same of a bare RSGI handler", lambda s: self._paced_bare(bare_port, s)),
        ]

    def _paced_bare(self, port: int, seconds: float) -> Round:
        return self._paced(replace(self._server.purchases(units=0).load, port=port), {200}, seconds)

    def _paced(self, load: Load, wanted: set[int], seconds: float) -> Round:
        paced = replace(load, rate_per_second=SOLD_OUT_RATE, connections=self._connections, seconds=seconds)
        result = self._drive(paced)
        if not wanted.issuperset(result.statuses) or result.failed:
            raise BenchFailed(f"sold_out: wanted {wanted}, got {result.statuses} and {result.failed} broken")
        return Round(result.per_second, result.latency)

    def _drive(self, load: Load) -> LoadResult:
        result = driver.drive(load)
        self.asked += result.good + result.refused
        self.shed += result.statuses.get(503, 0)
        return result
