"""A scenario: what is sold, who comes, and how they behave. Read from TOML, strictly: a misspelt knob is refused.

All shares are from 0 to 1. Nothing here depends on chance; `plan.py` draws what each buyer does.
"""

from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import SettingsError

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]


class Shape(StrEnum):
    """When they come: all within a moment, more and more, or one by one at random."""

    ALL_AT_ONCE = "all_at_once"
    RAMP = "ramp"
    POISSON = "poisson"


class BotKind(StrEnum):
    # Joins without having done the work.
    NO_PROOF = "no_proof"
    # Signs its own tokens, tickets and passes.
    FORGED = "forged"
    # One person with many accounts, each of which keeps to the rules.
    MANY_ACCOUNTS = "many_accounts"
    # Asks as fast as it can, with a new key each time.
    HAMMER = "hammer"


class Room(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mode: Literal["off", "fifo", "lottery"] = "off"
    rate_per_second: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    pass_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 20


class Selling(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sale, or as many alike as there are products."""

    name: str = "Rush"
    products: Annotated[int, Meta(ge=1, le=1_000)] = 1
    price: Annotated[int, Meta(ge=0, le=10**9)] = 4_999
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"
    checkout: Literal["cart", "instant"] = "cart"
    payment: Literal["wallet", "sandbox", "external"] = "wallet"
    per_buyer_limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = 1
    hold_seconds: Annotated[int, Meta(ge=1, le=1_800)] = 15
    opens_after_seconds: Seconds = 0
    room: Room = Room()
    proof_of_work_cost: Annotated[int, Meta(ge=1, le=2_000)] | None = None


class Arrival(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    shape: Shape = Shape.ALL_AT_ONCE
    over_seconds: Seconds = 1.0


class Crowd(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    # In line: leave for good or for a while, or close the window without a word.
    leave: Share = 0
    come_back: Share = 0
    vanish: Share = 0
    leave_after_seconds: Seconds = 5
    # With the purchase: the same request twice at once; the answer lost and asked again; the page loaded again later.
    double_clicks: Share = 0
    lost_replies: Share = 0
    refreshes: Share = 0
    # With the cart: left alone until its deadline, given back, held longer.
    abandon: Share = 0
    give_back: Share = 0
    extend: Share = 0
    # At the till: a card that is declined or a wallet with too little in it; another card after that.
    declines: Share = 0
    second_card: Share = 0
    # Of the payment provider's answers: lost, or an error. Only where the rush runs the sandbox itself.
    card_troubles: Share = 0
    think_seconds: Seconds = 1.0
    # How long someone who finds everything held tries again.
    patience_seconds: Seconds = 30
    # How many units: drawn evenly from the least to the most; whether fewer would do.
    least_quantity: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    most_quantity: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    takes_fewer: bool = True
    # 0: products are equally wanted; 1: the second half as much as the first, the third a third (Zipf).
    favourites: Annotated[float, Meta(ge=0, le=3)] = 0
    # A cache in front, as docs/DOOR.md asks for: one look at `now` per second and process, however many wait.
    edge_cache: bool = True


class Bots(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    share: Share = 0
    kinds: tuple[BotKind, ...] = tuple(BotKind)


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    about: str = ""
    users: Count = 1_000
    units: Count = 100
    sale: Selling = Selling()
    arrival: Arrival = Arrival()
    crowd: Crowd = Crowd()
    bots: Bots = Bots()


def ready_made() -> list[str]:
    found = (file.name for file in files("holdfast.rush").joinpath("scenarios").iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def load_scenario(given: str) -> Scenario:
    """By the name of one that comes with Holdfast, or from a file."""
    if given in ready_made():
        return parse_scenario(files("holdfast.rush").joinpath("scenarios", f"{given}.toml").read_text(), given)
    path = Path(given)
    if not path.is_file():
        raise SettingsError(f"there is no scenario {given}; use a TOML file, or one of: {', '.join(ready_made())}")
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
            raise SettingsError(f"{source}: {' + '.join(names)} in [crowd] are more than the whole crowd")
    if crowd.least_quantity > crowd.most_quantity:
        raise SettingsError(f"{source}: least_quantity is more than most_quantity")
    if sale.checkout == "instant" and sale.payment == "external":
        raise SettingsError(f'{source}: payment "external" needs checkout "cart": somebody confirms it')
    if scenario.bots.share and not scenario.bots.kinds:
        raise SettingsError(f"{source}: [bots] has a share but no kinds")
    if sale.room.mode == "lottery" and not sale.opens_after_seconds:
        raise SettingsError(f"{source}: a lottery is drawn at the opening, so it needs opens_after_seconds")


def body_of(scenario: Scenario) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(scenario)
    return told
