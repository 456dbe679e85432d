"""The options of a run. The limits keep a run on a laptop within a minute or two."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

USERS_MAX, UNITS_MAX, SECONDS_MAX = 5_000, 2_000, 60


class Engine(StrEnum):
    SQLITE = "sqlite"
    REDIS = "redis"


class Fault(StrEnum):
    REDIS = "redis"
    DATABASE = "database"
    SERVER = "server"


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    users: Annotated[int, Meta(ge=1, le=USERS_MAX)] = 1_500
    units: Annotated[int, Meta(ge=1, le=UNITS_MAX)] = 500
    # The time within which all buyers arrive.
    seconds: Annotated[float, Meta(ge=1, le=SECONDS_MAX)] = 30
    engine: Engine = Engine.SQLITE
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 1
