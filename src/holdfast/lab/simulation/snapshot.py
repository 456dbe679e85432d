"""The data that the page shows, as sent several times a second."""

from enum import StrEnum

from msgspec import Struct

from holdfast.lab.simulation.options import Fault, Options
from holdfast.lab.simulation.server import Verdict
from holdfast.lab.simulation.shops.shop import kinds


class Phase(StrEnum):
    IDLE = "idle"
    STARTING = "starting"
    SELLING = "selling"
    SETTLING = "settling"
    VERIFYING = "verifying"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_running(self) -> bool:
        return self in (Phase.STARTING, Phase.SELLING, Phase.SETTLING, Phase.VERIFYING)


class Clicks(Struct, frozen=True):
    arrived: int = 0
    sent: int = 0
    reserved: int = 0
    replayed: int = 0
    refused: int = 0
    retried: int = 0
    gave_up: int = 0
    waiting: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    reasons: dict[str, int] = {}


class Gate(Struct, frozen=True):
    """As last read; `is_up` is false if the last read failed."""

    is_up: bool = False
    available: int = 0
    held: int = 0
    sold: int = 0


class LedgerCounts(Struct, frozen=True):
    is_up: bool = False
    orders: int = 0
    # Buyers who were charged more than once.
    twice: int = 0


class ShopCounts(Struct, frozen=True):
    name: str
    title: str
    about: str
    code: str
    sold: int
    oversold: int
    # Buyers with more than one order.
    twice: int
    errors: int


def no_counts(*, has_redis: bool) -> list[ShopCounts]:
    """The counts before the first arrival."""
    return [ShopCounts(kind.name, kind.title, kind.about, kind.code, 0, 0, 0, 0) for kind in kinds(has_redis=has_redis)]


class FaultNote(Struct):
    fault: Fault
    at_s: float
    text: str
    is_over: bool = False


class Point(Struct, frozen=True, array_like=True):
    """A point of the chart: the units sold by then, in Holdfast's ledger and at every shop."""

    at_s: float
    promised: int
    orders: int
    shops: list[int]


class Snapshot(Struct, frozen=True):
    phase: Phase = Phase.IDLE
    run: int = 0
    options: Options = Options()
    elapsed_s: float = 0.0
    message: str = ""
    is_duplicating: bool = False
    clicks: Clicks = Clicks()
    gate: Gate = Gate()
    queue: int = 0
    ledger: LedgerCounts = LedgerCounts()
    shops: list[ShopCounts] = []
    faults: list[FaultNote] = []
    points: list[Point] = []
    verdict: Verdict | None = None


class Setup(Struct, frozen=True):
    """The capabilities of this machine, and the URL of the demo."""

    has_valkey: bool
    has_postgres: bool
    demo_url: str = ""


class Frame(Struct, frozen=True):
    setup: Setup
    snapshot: Snapshot
