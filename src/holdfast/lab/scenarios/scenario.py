"""A scenario: what is sold, who arrives, and how they behave. Read from TOML; unknown fields are rejected.

All shares are from 0 to 1. Nothing here is random; rush/buyers/behaviour.py draws the actions of each buyer.
"""

from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.domain.stock.limits import MAX_HOLD_S
from holdfast.errors import SettingsError

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]


class Shape(StrEnum):
    """The distribution of arrivals: evenly over a short time, increasing, or at random."""

    ALL_AT_ONCE = "all_at_once"
    RAMP = "ramp"
    POISSON = "poisson"


class BotKind(StrEnum):
    # Joins without a proof of work.
    NO_PROOF = "no_proof"
    # Forges tokens, tickets and passes.
    FORGED = "forged"
    # One person with many accounts, all of which follow the rules.
    MANY_ACCOUNTS = "many_accounts"
    # Sends bursts of purchases, each with a new key.
    HAMMER = "hammer"


# The number of concurrent purchases per burst of a hammering bot, and the number of bursts.
HAMMER_BURST, HAMMER_BURSTS = 8, 3


class Room(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mode: Literal["off", "fifo", "lottery"] = "off"
    rate_per_second: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    pass_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 20


class SaleTerms(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The terms of the sale, or of each sale if there are several products."""

    name: str = "Rush"
    products: Annotated[int, Meta(ge=1, le=1_000)] = 1
    price: Annotated[int, Meta(ge=0, le=10**9)] = 4_999
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"
    checkout: Literal["cart", "instant"] = "cart"
    payment: Literal["wallet", "sandbox", "external"] = "wallet"
    per_buyer_limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = 1
    hold_seconds: Annotated[int, Meta(ge=1, le=MAX_HOLD_S)] = 15
    opens_after_seconds: Seconds = 0
    room: Room = Room()
    proof_of_work_cost: Annotated[int, Meta(ge=1, le=2_000)] | None = None


class Arrival(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    shape: Shape = Shape.ALL_AT_ONCE
    over_seconds: Seconds = 1.0


class Crowd(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    # Opens the page first and leaves if everything is sold; the others click in a page opened earlier.
    look_first: Share = 0
    # In the queue: leave for good, leave for a while, or close the window without leaving.
    leave: Share = 0
    come_back: Share = 0
    vanish: Share = 0
    leave_after_seconds: Seconds = 5
    # Buying: send the same request twice at once; lose the response and retry; reload the page later.
    double_clicks: Share = 0
    lost_replies: Share = 0
    refreshes: Share = 0
    # The cart: abandoned until it expires, cancelled, or extended.
    abandon: Share = 0
    give_back: Share = 0
    extend: Share = 0
    # Paying: a declined card or an underfunded wallet, and a second card after that.
    declines: Share = 0
    second_card: Share = 0
    # Lost or failed responses of the payment provider. Only where the rush starts the sandbox.
    card_troubles: Share = 0
    think_seconds: Seconds = 1.0
    # How long a buyer retries when all units are held.
    patience_seconds: Seconds = 30
    # Units per purchase, drawn evenly from this range; and whether fewer are accepted.
    least_quantity: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    most_quantity: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    takes_fewer: bool = True
    # Popularity of products (Zipf exponent). 0: all alike; 1: the second is half as popular as the first.
    favourites: Annotated[float, Meta(ge=0, le=3)] = 0
    # A cache in front: one request for `now` per second and process, however many buyers poll. A real edge replaces it.
    edge_cache: bool = True


class Bots(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    share: Share = 0
    kinds: tuple[BotKind, ...] = tuple(BotKind)


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    about: str = ""
    users: Count = 1_000
    units: Count = 100
    sale: SaleTerms = SaleTerms()
    arrival: Arrival = Arrival()
    crowd: Crowd = Crowd()
    bots: Bots = Bots()


def built_in_scenarios() -> list[str]:
    found = (file.name for file in files("holdfast.lab.scenarios").iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def load_scenario(given: str) -> Scenario:
    """A built-in scenario by name, or one from a file."""
    if given in built_in_scenarios():
        return parse_scenario(files("holdfast.lab.scenarios").joinpath(f"{given}.toml").read_text(), given)
    path = Path(given)
    if not path.is_file():
        raise SettingsError(
            f"there is no scenario {given}; use a TOML file, or one of: {', '.join(built_in_scenarios())}"
        )
    try:
        return parse_scenario(path.read_text(), given)
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{given} cannot be read: {exc}") from exc


def parse_scenario(text: str, source: str) -> Scenario:
    try:
        scenario = msgspec.toml.decode(text, type=Scenario)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise SettingsError(f"{source}: {exc}") from exc
    _check(scenario, source)
    return scenario


def _check(scenario: Scenario, source: str) -> None:
    crowd, sale = scenario.crowd, scenario.sale
    for names in (("leave", "vanish"), ("abandon", "give_back")):
        if sum(getattr(crowd, name) for name in names) > 1:
            raise SettingsError(f"{source}: {' + '.join(names)} in [crowd] add up to more than 1")
    if crowd.least_quantity > crowd.most_quantity:
        raise SettingsError(f"{source}: least_quantity is more than most_quantity")
    if sale.checkout == "instant" and sale.payment == "external":
        raise SettingsError(f'{source}: payment "external" needs checkout "cart", which the shop confirms')
    if scenario.bots.share and not scenario.bots.kinds:
        raise SettingsError(f"{source}: [bots] has a share but no kinds")
    if sale.room.mode == "lottery" and not sale.opens_after_seconds:
        raise SettingsError(f"{source}: a lottery is drawn at the opening and needs opens_after_seconds")


def as_json_object(scenario: Scenario) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(scenario)
    return fields
