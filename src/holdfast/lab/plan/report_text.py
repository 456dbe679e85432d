"""A plan in words and numbers; each result states its derivation."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.lab.plan.capacity import orders_of_worker
from holdfast.lab.plan.facts import Facts, Payment
from holdfast.lab.plan.plan import Plan
from holdfast.lab.plan.snapshot import Snapshot
from holdfast.lab.plan.tiers import OF_THIS, Tier, by_utilisation

_SERIES = ("at_s", "arrived", "waiting", "joining", "called", "available", "held", "sold")
_RATES = ("joins", "attempts", "orders", "watches", "looks")
_POINTS = 240


class Result(Struct, frozen=True):
    name: str
    value: str
    follows_from: str


def headline(facts: Facts) -> str:
    room = f"waiting room at {facts.rate_per_second:,.0f}/s" if facts.has_room else "no waiting room"
    how = facts.shape.value.replace("_", " ")
    return f"{facts.users:,} people, {facts.units:,} units, {facts.engine}, {room}; {how} over {facts.over_s:g} s"


def results(plan: Plan) -> list[Result]:
    outcome = plan.outcome
    found = [
        Result("half sold after", in_words(outcome.fifty_percent_after_s), _pace_of_sale(plan)),
        Result(
            "90 % sold after", in_words(outcome.ninety_percent_after_s), "the same, plus units that were returned once"
        ),
        Result(
            "99 % sold after",
            _spanned(outcome.ninety_nine_percent_after_s, outcome.ninety_nine_percent_between_s),
            "units that were returned repeatedly; in brackets the range of 80 % of randomized runs",
        ),
        Result(
            "sold out after",
            _spanned(outcome.sold_out_after_s, outcome.sold_out_between_s),
            "the last units one by one: each waits for a no-show or an abandoned cart",
        ),
        Result("units sold", f"{outcome.sold:,} of {plan.facts.units:,}", _sold(plan)),
        Result(
            "peak attempts",
            f"{outcome.attempts_per_second_peak:,.0f}/s",
            f"{outcome.attempts:,} in total reach the gate; "
            f"the slowest takes {outcome.slowest_purchase_ms:,.0f} ms, {plan.figures.answer_ms:g} ms when idle",
        ),
    ]
    return [*found, *_line_results(plan)] if plan.facts.has_room else found


def _line_results(plan: Plan) -> list[Result]:
    outcome, facts = plan.outcome, plan.facts
    waits = outcome.admission_wait
    shown = "-" if waits is None else " / ".join(in_words(wait) for wait in (waits.p50, waits.p90, waits.p99))
    line = plan.figures.line.per_second
    return [
        Result(
            "longest line",
            f"{outcome.longest_line:,}",
            f"{facts.users:,} people arrive, {outcome.called:,} are admitted",
        ),
        Result(
            "wait p50/p90/p99",
            shown,
            "of those admitted, from arrival; depends on the admission rate, stock and returned carts",
        ),
        Result(
            "last to join after",
            in_words(outcome.joined_last_after_s),
            f"people arrive over {facts.over_s:g} s; one waiting room takes {line:,.0f} joins/s; "
            f"at most {outcome.most_trying_to_join:,} retry at a time",
        ),
    ]


def _pace_of_sale(plan: Plan) -> str:
    facts = plan.facts
    buyers = facts.conversion * (1 - facts.no_show)
    called = f"at most {facts.rate_per_second:,.0f} admitted/s, {buyers:.0%} of them buy; " if facts.has_room else ""
    carts = "" if facts.is_instant else f"{facts.abandon:.0%} of carts expire after {facts.hold_s:g} s; "
    if facts.payment is Payment.EXTERNAL:
        return f"{called}{carts}payment is external"
    each, workers = orders_of_worker(facts, plan.figures), plan.deployment.workers
    if not workers:
        return f"{called}{carts}the server itself settles up to {each:,.0f} orders/s"
    return f"{called}{carts}{workers} worker(s) settle {each * workers:,.0f} orders/s"


def _sold(plan: Plan) -> str:
    if plan.outcome.sold == plan.facts.units:
        return "all: every returned unit is sold again"
    if plan.outcome.ended_after_s >= plan.facts.window_s:
        return f"the sale ends after {in_words(plan.facts.window_s)}"
    return "everyone has bought or left by then"


def limits(tier: Tier) -> str:
    """The load at which the tier saturates, and the consequence."""
    load = 1 / tier.used if tier.used else float("inf")
    if load > 1e6:
        return f"{tier.name}: load is negligible"
    times = f"{load:,.2f}" if load < 10 else f"{load:,.0f}"
    at = f"at {times} {OF_THIS}" if tier.rate_unit == OF_THIS else (
        f"at {tier.breaks_at:,.0f} {tier.rate_unit}, {times} {OF_THIS}"
    )  # fmt: skip
    return f"{tier.name}, {at}: {tier.then}"


def assumptions(plan: Plan) -> list[str]:
    facts = plan.facts
    found = [
        "Until 90 % are sold, the model uses averages only.",
        "Tiers scale linearly; no more than two server processes were measured together.",
        "The bundled figures were measured on two shared cores and are conservative; use --figures for your own.",
        "Networks, disks and payment providers have constant speed, and nothing fails.",
    ]
    if facts.has_room:
        found.append("People who cannot join yet retry; their 503 responses are not counted in the API load.")
        found.append(
            "A waiting room assigns places through one row; whether several processes are faster was not measured."
        )
        found.append("Pages and images are served elsewhere." + (
            " The edge caches `now` for a second (docs/RATE_LIMITS.md); its figure was measured without proxy and TLS."
            if facts.has_edge else ""
        ))  # fmt: skip
    else:
        found.append(f"People who find all units held retry every 1.5 s, for {facts.patience_s:g} s on average.")
    if facts.engine != "sqlite":
        found.append("The whole cost of joins, decisions and orders, including Python, is attributed to PostgreSQL.")
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
        "breaks_first": plan.bottleneck.name,
        "breaking_order": [limits(tier) for tier in by_utilisation(plan.tiers)],
        "headroom": plan.headroom,
        "figures": msgspec.to_builtins(plan.figures),
        "assumptions": assumptions(plan),
        "series": series(plan.snapshots),
    }


def _tier_body(tier: Tier) -> dict[str, Any]:
    return asdict(tier) | {
        "used": round(tier.used, 4),
        "is_enough": tier.is_enough,
        "breaks_at": round(tier.breaks_at, 2) if tier.used else None,
    }


def series(snapshots: list[Snapshot]) -> dict[str, list[float]]:
    """Downsampled: levels at each point, and rates per second since the previous point."""
    every = max(1, len(snapshots) // _POINTS)
    parts = [snapshots[first : first + every] for first in range(0, len(snapshots), every)]
    found: dict[str, list[float]] = {name: [getattr(part[-1], name) for part in parts] for name in _SERIES}
    found["at_s"] = [round(at_s, 1) for at_s in found["at_s"]]
    for name in _RATES:
        found[f"{name}_per_second"] = [
            round(sum(getattr(snapshot, name) for snapshot in part) / (len(part) * snapshots[0].at_s), 2)
            for part in parts
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
