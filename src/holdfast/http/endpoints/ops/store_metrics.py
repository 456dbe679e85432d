"""Metrics that are read from the stores when Prometheus asks.

Metrics set by agents are missing where no agent runs, and gauges of deleted things (a webhook, a closed sale) would
remain forever. These are computed for each scrape, so they are current, bounded, and the same in every process.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from holdfast.bootstrap.lag import Lags
from holdfast.bootstrap.services import Services
from holdfast.domain.room.room import RoomState
from holdfast.errors import HoldfastError
from holdfast.gate.engine import GateLink
from holdfast.ledger.sales.figures import SaleStanding, standing_of_sales
from holdfast.ledger.sales.shortage import declared

# The newest sales that are not closed. Each has a few dozen time series.
MAX_SALES_SHOWN = 100
# The time limit of a scrape. Metrics not known by then are left out, and alert on absence.
TIMEOUT_S = 4.0


class Described(Struct, frozen=True):
    name: str
    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


LAG_ITEMS = Described("holdfast_lag_items", "Items that background work has not done yet, by kind.", ("work",))
LAG_SECONDS = Described("holdfast_lag_seconds", "How long the oldest of them has waited, by kind of work.", ("work",))
OVERSOLD = Described("holdfast_oversold_units", "Units sold beyond what can be delivered. More than 0 is an oversell.")
UNBALANCED = Described("holdfast_unbalanced_pools", "Pools whose available, held and sold units are not their total.")
DRIFTING = Described("holdfast_drifting_pools", "Pools in which gate and ledger were found inconsistent.")
HEADROOM = Described("holdfast_redis_memory_headroom_ratio", "Free part of the memory that Redis may use; the least.")
SALE_UNITS = Described("holdfast_sale_units", "Units of a sale's pool, by state.", ("sale_id", "state"))
SALE_ATTEMPTS = Described(
    "holdfast_sale_attempts", "Attempts to reserve since the pool was made, by outcome.", ("sale_id", "outcome"), True
)
SALE_RETURNS = Described("holdfast_sale_returned_units", "Units that came back, by why.", ("sale_id", "reason"), True)
ROOM_PEOPLE = Described("holdfast_room_people", "People in a line: waiting, called, with a pass.", ("sale_id", "state"))
ROOM_CALLED = Described("holdfast_room_called", "People who were called.", ("sale_id",), True)
ROOM_NO_SHOWS = Described(
    "holdfast_room_no_shows", "People who were called and did not come, or did not buy.", ("sale_id", "step"), True
)
DESCRIBED = (
    LAG_ITEMS, LAG_SECONDS, OVERSOLD, UNBALANCED, DRIFTING, HEADROOM, SALE_UNITS, SALE_ATTEMPTS, SALE_RETURNS,
    ROOM_PEOPLE, ROOM_CALLED, ROOM_NO_SHOWS,
)  # fmt: skip

Samples = Iterable[tuple[tuple[str, ...], float]]


class _Made(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


class StoreMetrics:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def registry(self) -> CollectorRegistry:
        registry = CollectorRegistry()
        registry.register(_Made(await self._families()))
        return registry

    async def _families(self) -> list[Metric]:
        """A store that does not answer must not hide the metrics of the others."""
        parts = [self._lags(), self._sales(), self._drift(), self._redis()]
        found = await asyncio.gather(*[asyncio.wait_for(part, TIMEOUT_S) for part in parts], return_exceptions=True)
        families: list[Metric] = []
        for part in found:
            if isinstance(part, list):
                families += part
            elif not isinstance(part, HoldfastError | TimeoutError):
                raise part
        return families

    async def _lags(self) -> list[Metric]:
        lags = await self._services.lag.read()
        by_work = {name: getattr(lags, name) for name in WORK}
        return [
            _family(LAG_ITEMS, (((name,), lag.items) for name, lag in by_work.items())),
            _family(LAG_SECONDS, (((name,), lag.seconds) for name, lag in by_work.items())),
        ]

    async def _sales(self) -> list[Metric]:
        standings, short = await self._services.reads.read(_read)
        return [
            _family(OVERSOLD, [((), short)]),
            _family(SALE_UNITS, _each(standings, "units")),
            _family(SALE_ATTEMPTS, _each(standings, "attempts")),
            _family(SALE_RETURNS, _each(standings, "returned")),
            *_of_rooms([one.room for one in standings if one.room is not None]),
        ]

    async def _drift(self) -> list[Metric]:
        """The reports of this process, renewed if they are old: it may be one without background work."""
        reports = await self._services.engine.reconciler.fresh_reports()
        pools = [report.pool for report in reports]
        unbalanced = [pool for pool in pools if pool.available < 0 or min(pool.held, pool.sold) < 0]
        drifting = [report for report in reports if report.finding is not None]
        return [_family(UNBALANCED, [((), len(unbalanced))]), _family(DRIFTING, [((), len(drifting))])]

    async def _redis(self) -> list[Metric]:
        link = self._services.engine.link
        return [] if link is None else [_family(HEADROOM, [((), await redis_headroom(link))])]


WORK = tuple(name for name in Lags.__struct_fields__ if name not in ("as_of", "journal_by_pool"))


def _read(connection: Connection) -> tuple[list[SaleStanding], int]:
    short = sum(shortage.units for shortage in declared(connection))
    return standing_of_sales(connection, limit=MAX_SALES_SHOWN), short


async def redis_headroom(link: GateLink) -> float:
    """The memory use of the primary with the least left; without `maxmemory`, of the host's memory."""
    found = []
    for [reply] in await link.call_everywhere(("INFO", "memory")):
        info = dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
        limit = int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))
        found.append(1 - int(info["used_memory"]) / limit if limit else 1.0)
    return max(min(found, default=1.0), 0.0)


def _each(standings: Iterable[SaleStanding], what: str) -> Samples:
    for one in standings:
        values: Mapping[str, int] = getattr(one, what)
        yield from (((one.sale_id, name), number) for name, number in values.items())


def _of_rooms(rooms: list[RoomState]) -> list[Metric]:
    people = [
        (room.sale_id, {"waiting": room.waiting, "called": room.called, "with_pass": room.passes}) for room in rooms
    ]
    absent = [(room.sale_id, {"no_answer": room.calls_lapsed, "no_purchase": room.passes_lapsed}) for room in rooms]
    return [
        _family(ROOM_PEOPLE, (((sale, name), max(n, 0)) for sale, counts in people for name, n in counts.items())),
        _family(ROOM_CALLED, (((room.sale_id,), room.serving) for room in rooms)),
        _family(ROOM_NO_SHOWS, (((sale, name), n) for sale, counts in absent for name, n in counts.items())),
    ]


def _family(described: Described, samples: Samples) -> Metric:
    kind = CounterMetricFamily if described.is_counter else GaugeMetricFamily
    family = kind(described.name, described.help, labels=described.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
