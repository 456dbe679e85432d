"""What the conductor tells a process of the crowd, and what it hears from it: lines of JSON on stdin and stdout."""

from msgspec import Struct

from holdfast.rush.scenario import Scenario
from holdfast.rush.tally import Tally
from holdfast.rush.testimony import Testimony
from holdfast.rush.visitor import Offer


class Task(Struct, frozen=True):
    """Play those whose number leaves `part` when divided by `parts`."""

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

    def buyer_id(self, number: int) -> str:
        return f"rush-{self.tag}-{number}"


class Go(Struct, frozen=True, tag=True):
    """The sales are made: begin at this moment of the monotonic clock, which all processes of a machine share."""

    offers: list[Offer]
    starts_at: float


class Stop(Struct, frozen=True, tag=True):
    """Cut everyone off."""


class Ready(Struct, frozen=True, tag=True):
    credited: int = 0


class Beat(Struct, frozen=True, tag=True):
    """What was counted since the last."""

    tally: Tally
    here: int
    in_line: int
    """Requests that wait for a connection."""


class Seen(Struct, frozen=True, tag=True):
    testimonies: list[Testimony]


class Finished(Struct, frozen=True, tag=True):
    cpu_s: float
    memory_mb: float


Told = Ready | Beat | Seen | Finished
