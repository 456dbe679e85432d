"""What the report says, in words and numbers, independent of how it is shown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from holdfast.domain.sale.sale import in_words
from holdfast.ledger.sales.report import SaleReport
from holdfast.verify.check import Finding
from holdfast.verify.prove import Proof

# The checks that speak of stock, and those that speak of the order of the line.
CONSERVATION = ("pools_within_total", "pools_count_reservations", "pools_count_events", "splits_add_up")
FAIRNESS = (
    "places_numbered", "places_by_arrival", "places_one_each", "nobody_before_their_turn", "places_served_once",
    "places_as_arrived", "draws_published", "places_as_drawn",
)  # fmt: skip


class Step(Struct, frozen=True):
    """A step of the funnel."""

    name: str
    number: int


class ProvenReport(Struct, frozen=True):
    """A report and the proof that was made from the same snapshot."""

    facts: SaleReport
    proof: Proof


def held(findings: Sequence[Finding]) -> str:
    return f"{sum(finding.ok for finding in findings)} of {len(findings)} checks hold"


def named(proof: Proof, names: Sequence[str]) -> list[Finding]:
    return [finding for finding in proof.findings if finding.name in names]


def revenue(facts: SaleReport) -> dict[str, int]:
    """What was paid in each currency, with what was refunded of it."""
    paid: Counter[str] = Counter()
    for status, each in facts.orders.items():
        if status not in ("pending", "cancelled"):
            paid.update(each.amounts)
    return dict(sorted(paid.items()))


def money(amounts: Mapping[str, int], currency: str) -> str:
    """Amounts of different currencies are never added up. Nothing at all is nothing in `currency`."""
    return ", ".join(in_words(amount, of) for of, amount in (amounts or {currency: 0}).items())


def funnel(facts: SaleReport) -> list[Step]:
    line = facts.line
    reserved = sum(amount.number for amount in facts.reservations.values())
    paid = sum(each.number for status, each in facts.orders.items() if status not in ("pending", "cancelled"))
    steps = [] if line is None else [
        Step("Joined the waiting room", line.joined), Step("Called", line.called),
        Step("Took their pass", line.passes_given), Step("Used their pass", line.passes_used),
    ]  # fmt: skip
    steps += [Step("Attempts to buy", facts.attempts), Step("Reservations", reserved), Step("Paid orders", paid)]
    return [step for step in steps if step.number]


def headline(facts: SaleReport) -> dict[str, str]:
    sale = facts.sale
    figures = {
        "units sold": f"{facts.sold:,} of {facts.total:,}",
        "revenue": money(revenue(facts), sale.currency),
        "buyers with a reservation": f"{facts.buyers:,}",
        "sold within": duration(_selling_ms(facts)),
        "attempts to buy": f"{facts.attempts:,}",
        "answered within (99 %)": _ms(facts.answered_in_ms["p99"]),
    }
    if facts.refunded_amounts:
        figures["refunded"] = money(facts.refunded_amounts, sale.currency)
    return figures


def _selling_ms(facts: SaleReport) -> int | None:
    if facts.last_sold_at is None:
        return None
    return max(facts.last_sold_at - (facts.sale.opened_at or facts.sale.starts_at), 0)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def duration(ms: int | None) -> str:
    if ms is None:
        return "-"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1000:,.1f} s"
    return f"{ms / 60_000:,.1f} min" if ms < 7_200_000 else f"{ms / 3_600_000:,.1f} h"


def time_of(at: int | None, *, only_time: bool = False) -> str:
    if at is None:
        return "-"
    return f"{datetime.fromtimestamp(at / 1000, UTC):{'%H:%M:%S' if only_time else '%Y-%m-%d %H:%M:%S UTC'}}"


def equation(facts: SaleReport) -> str:
    return f"{facts.total:,} = {facts.available:,} available + {facts.held:,} held + {facts.sold:,} sold"


def in_order(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    """The largest first."""
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
