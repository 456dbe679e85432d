"""A plan in words and numbers: each says what it follows from."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.plan.capacity import orders_of_worker
from holdfast.plan.facts import Facts, Payment
from holdfast.plan.making import Plan
from holdfast.plan.moment import Moment
from holdfast.plan.tiers import OF_THIS, Tier, breaking

_SERIES = ("at_s", "arrived", "waiting", "joining", "called", "available", "held", "sold")
_RATES = ("joins", "attempts", "orders", "watches", "looks")
_POINTS = 240


class Result(Struct, frozen=True):
    name: str
    value: str
    follows_from: str


def heading(facts: Facts) -> str:
    room = f"a line at {facts.rate_per_second:,.0f}/s" if facts.has_room else "no line"
    how = facts.shape.value.replace("_", " ")
    return f"{facts.users:,} people, {facts.units:,} units, {facts.engine}, {room}; {how} over {facts.over_s:g} s"


def results(plan: Plan) -> list[Result]:
    outcome = plan.outcome
    found = [
        Result("half sold after", in_words(outcome.fifty_percent_after_s), _pace_of_sale(plan)),
        Result("90 % sold after", in_words(outcome.ninety_percent_after_s), "the same, and units that came back once"),
        Result(
            "99 % sold after",
            _spanned(outcome.ninety_nine_percent_after_s, outcome.ninety_nine_percent_between_s),
            "units that came back again and again; in brackets four of five runs in which chance decided",
        ),
        Result(
            "sold out after",
            _spanned(outcome.sold_out_after_s, outcome.sold_out_between_s),
            "the last units one by one: each waits for who was called and does not come, or lies in a cart",
        ),
        Result("units sold", f"{outcome.sold:,} of {plan.facts.units:,}", _sold(plan)),
        Result(
            "attempts at most",
            f"{outcome.attempts_per_second_peak:,.0f}/s",
            f"{outcome.attempts:,} in all, so many as reach the gate; "
            f"the slowest takes {outcome.slowest_purchase_ms:,.0f} ms, from {plan.figures.answer_ms:g} ms at rest",
        ),
    ]
    return [*found, *_line_results(plan)] if plan.facts.has_room else found


def _line_results(plan: Plan) -> list[Result]:
    outcome, facts = plan.outcome, plan.facts
    waits = outcome.let_in
    shown = "-" if waits is None else " / ".join(in_words(wait) for wait in (waits.p50, waits.p90, waits.p99))
    line = plan.figures.line.per_second
    return [
        Result("longest line", f"{outcome.longest_line:,}", f"{facts.users:,} come, {outcome.called:,} are called"),
        Result("wait p50/p90/p99", shown, "of those let in, from when they came: calls/s, stock, and returning carts"),
        Result(
            "last to join after",
            in_words(outcome.joined_last_after_s),
            f"they come over {facts.over_s:g} s; one line takes {line:,.0f}/s; "
            f"{outcome.most_trying_to_join:,} try to join at most",
        ),
    ]


def _pace_of_sale(plan: Plan) -> str:
    facts = plan.facts
    buyers = facts.conversion * (1 - facts.no_show)
    called = f"at most {facts.rate_per_second:,.0f} called/s, {buyers:.0%} of them buy; " if facts.has_room else ""
    carts = "" if facts.is_instant else f"{facts.abandon:.0%} of carts lapse after {facts.hold_s:g} s; "
    if facts.payment is Payment.EXTERNAL:
        return f"{called}{carts}the shop takes the money itself"
    each, workers = orders_of_worker(facts, plan.figures), plan.deployment.workers
    if not workers:
        return f"{called}{carts}the server itself settles up to {each:,.0f} orders/s"
    return f"{called}{carts}{workers} worker(s) settle {each * workers:,.0f} orders/s"


def _sold(plan: Plan) -> str:
    if plan.outcome.sold == plan.facts.units:
        return "all: every unit that returns is sold again"
    if plan.outcome.ended_after_s >= plan.facts.window_s:
        return f"the sale ends after {in_words(plan.facts.window_s)}"
    return "everyone has bought or gone by then"


def breaks(tier: Tier) -> str:
    """At which load it gives way, and what happens then."""
    load = 1 / tier.used if tier.used else float("inf")
    if load > 1e6:
        return f"{tier.name}: nothing here comes near it"
    times = f"{load:,.2f}" if load < 10 else f"{load:,.0f}"
    at = f"at {times} {OF_THIS}" if tier.rate_unit == OF_THIS else (
        f"at {tier.breaks_at:,.0f} {tier.rate_unit}, {times} {OF_THIS}"
    )  # fmt: skip
    return f"{tier.name}, {at}: {tier.then}"


def assumptions(plan: Plan) -> list[str]:
    facts = plan.facts
    found = [
        "Until 90 % are sold chance is left out: everything happens as often, and when, it does on average.",
        "A tier of n does n times what one was measured to do; only two server processes were ever measured together.",
        "Figures that come with Holdfast are of two shared cores and on the low side; --figures takes your own.",
        "Networks, disks and payment providers are as fast as they always are, and nothing fails.",
    ]
    if facts.has_room:
        found.append("Who cannot join yet asks again; answering 503 to them is not counted in the API's load.")
        found.append(
            "Places of one line are given by one row; whether several processes give them faster is not known."
        )
        found.append("Pages and pictures come from elsewhere." + (
            " An edge keeps `now` for a second, as docs/DOOR.md asks for; its figure is no proxy's, and without TLS."
            if facts.has_edge else ""
        ))  # fmt: skip
    else:
        found.append(f"Who finds everything held asks again every 1.5 s, for {facts.patience_s:g} s on average.")
    if facts.engine != "sqlite":
        found.append(
            "All that a join, a decision or an order took was counted as PostgreSQL's, Python's part included."
        )
    if facts.payment is Payment.WALLET:
        found.append("Several settlers on one hot pool were not measured.")
    return found


def body(plan: Plan) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "facts": msgspec.to_builtins(plan.facts),
        "result": msgspec.to_builtins(plan.outcome),
        "follows_from": {result.name: result.follows_from for result in results(plan)},
        "tiers": [_tier_body(tier) for tier in plan.tiers],
        "breaks_first": plan.breaks_first.name,
        "breaking_order": [breaks(tier) for tier in breaking(plan.tiers)],
        "headroom": plan.headroom,
        "figures": msgspec.to_builtins(plan.figures),
        "assumptions": assumptions(plan),
        "series": series(plan.moments),
    }


def _tier_body(tier: Tier) -> dict[str, Any]:
    return asdict(tier) | {
        "used": round(tier.used, 4),
        "is_enough": tier.is_enough,
        "breaks_at": round(tier.breaks_at, 2) if tier.used else None,
    }


def series(moments: list[Moment]) -> dict[str, list[float]]:
    """Thinned: how it stands at each of some moments, and what was done per second since the one before."""
    every = max(1, len(moments) // _POINTS)
    parts = [moments[first : first + every] for first in range(0, len(moments), every)]
    found: dict[str, list[float]] = {name: [getattr(part[-1], name) for part in parts] for name in _SERIES}
    found["at_s"] = [round(at_s, 1) for at_s in found["at_s"]]
    for name in _RATES:
        found[f"{name}_per_second"] = [
            round(sum(getattr(moment, name) for moment in part) / (len(part) * moments[0].at_s), 2) for part in parts
        ]
    return found


def _spanned(seconds: float | None, between: tuple[float, float] | None) -> str:
    if between is None or between[1] - between[0] < 1:
        return in_words(seconds)
    return f"{in_words(seconds)} ({in_words(between[0])} to {in_words(between[1])})"


def in_words(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
    return f"{seconds / 3600:.1f} h"
