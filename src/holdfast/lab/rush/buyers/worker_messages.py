"""The messages between the parent and a worker process: lines of JSON on stdin and stdout."""

from msgspec import Struct

from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.scenarios.scenario import Scenario


class Task(Struct, frozen=True):
    """Simulate every buyer whose number modulo `parts` is `part`."""

    scenario: Scenario
    users: int
    seed: int
    tag: str
    host: str
    port: int
    buyer_secret: str
    service_key: str = ""
    part: int = 0
    parts: int = 1
    connections: int = 256
    is_nice: bool = False
    buyer_claims: dict[str, str] = {}

    def buyer_id(self, number: int) -> str:
        return f"rush-{self.tag}-{number}"


class Start(Struct, frozen=True, tag=True):
    """The sales exist. Start at this time of the monotonic clock, which all processes of a machine share."""

    offers: list[Offer]
    starts_at: float


class Stop(Struct, frozen=True, tag=True):
    """End every visit now."""


class Ready(Struct, frozen=True, tag=True):
    credited: int = 0


class Counted(Struct, frozen=True, tag=True):
    """Counts since the last message. `waiting` is the number of requests without a connection."""

    tally: Tally
    waiting: int


class Records(Struct, frozen=True, tag=True):
    records: list[BuyerRecord]


class Finished(Struct, frozen=True, tag=True):
    cpu_s: float
    memory_mb: float


WorkerMessage = Ready | Counted | Records | Finished
