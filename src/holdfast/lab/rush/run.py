"""A rush from start to end: prepare, simulate the buyers, wait until every hold has ended, read the ledger, check.

When it fails. A rush that cannot start (no server, no key, a sale that is refused) is an error without a verdict. Once
it has started there is always a verdict: buyers still active after `LONGEST_S` are cut off and treated as if a purchase
were in flight; anything still open after that is a finding.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import nullcontext, suppress
from time import monotonic, time
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.errors import HoldfastError, SettingsError
from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.buyers.worker_messages import Start, Task
from holdfast.lab.rush.checks.edge_answers import OriginCount, answers_of, check_origin
from holdfast.lab.rush.checks.finding import Finding
from holdfast.lab.rush.checks.invariants import Evidence, check
from holdfast.lab.rush.server.ledger_snapshot import LedgerSnapshot, read_snapshot
from holdfast.lab.rush.server.payment_faults import payment_faults
from holdfast.lab.rush.server.sale_admin import SaleAdmin, opening, sale_id_of, units_of
from holdfast.lab.rush.server.stock_monitor import Sample, StockMonitor
from holdfast.lab.rush.server.target import Target
from holdfast.lab.rush.worker_pool import WorkerPool
from holdfast.lab.scenarios.scenario import Scenario
from holdfast.verify.check import Level
from holdfast.verify.prove import prove
from holdfast.verify.sandbox import compare
from holdfast.verify.sandbox import read_books as read_sandbox_payments
from holdfast.verify.snapshot import look

# From the start message to the first arrival, so that every process has read the message by then.
HEAD_START_S = 0.5
# Counted from the last arrival.
LONGEST_S = 900.0
# Added to the longest hold, extended once: expirer and settler need a moment.
ENDING_S = 60.0
_POLL_S = 0.25
# The server adds up its counters a few times a second.
_ADDED_UP_S = 1.0


class Options(Struct, frozen=True):
    scenario: Scenario
    users: int
    units: int
    seed: int
    processes: int = 1
    connections: int = 256
    sale_id: str = ""
    """An existing sale; without it the scenario's sales are created."""
    checks: bool = True
    is_nice: bool = False
    ending_s: float = ENDING_S
    part: int = 0
    """If several hosts simulate the crowd, this one takes the buyers whose number modulo `parts` is `part`."""
    parts: int = 1
    starts_at: float | None = None
    """Unix time in seconds; by default immediately."""


class RushProgress(Struct):
    """The current state, for the live view."""

    options: Options
    workers: WorkerPool
    monitor: StockMonitor | None = None
    starts_at: float = 0.0
    phase: str = "starting"

    @property
    def elapsed_s(self) -> float:
        return max(monotonic() - self.starts_at, 0.0) if self.starts_at else 0.0


class RushResult(Struct, frozen=True):
    options: Options
    engine: str
    offers: list[Offer]
    starts_at: float
    ended_s: float
    tally: Tally
    records: list[BuyerRecord]
    samples: list[Sample]
    findings: list[Finding]
    cpu_s: float
    memory_mb: float
    sold: list[tuple[float, int]] = []
    """Times and units of the sales, from the ledger; empty if it was not read."""
    has_edge: bool = False
    origin: OriginCount | None = None
    """Known if we started the edge."""

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


Show = Callable[[RushProgress], None]


async def run_rush(target: Target, options: Options, show: Show = lambda _progress: None) -> RushResult:
    workers, admin = WorkerPool(), SaleAdmin(*target.origin, target.service_key)
    try:
        return await _run(target, RushProgress(options, workers), admin, show)
    finally:
        await workers.close()
        admin.close()


async def _run(target: Target, progress: RushProgress, admin: SaleAdmin, show: Show) -> RushResult:
    workers, tag = progress.workers, secrets.token_hex(4)
    await admin.check_access(BuyerTokens(target.buyer_secret, target.buyer_claims).sign(f"rush-{tag}"))
    if progress.options.sale_id:
        progress.options = await _adopt_sale(target, admin, progress.options)
    options = progress.options
    _enter(progress, show, "filling wallets" if options.scenario.sale.payment == "wallet" else "getting ready")
    await workers.start(_tasks(target, options, tag))
    async with payment_faults(target, options.scenario.crowd.card_troubles, options.seed):
        return await _sell(target, progress, admin, show, tag)


async def _sell(target: Target, progress: RushProgress, admin: SaleAdmin, show: Show, tag: str) -> RushResult:
    workers, options = progress.workers, progress.options
    offers, clock_offset_s = await _open_sales(admin, options, tag), monotonic() - time()
    monitor = progress.monitor = StockMonitor(admin, offers)
    answered_before = await _answered(target, admin)
    progress.starts_at = _start(options, clock_offset_s)
    _enter(progress, show, "rush")
    async with monitor.running() if target.service_key else nullcontext():
        cut_off = asyncio.get_running_loop().call_later(_longest_s(options), workers.cut_off)
        await workers.run(Start(offers, progress.starts_at), lambda: show(progress))
        cut_off.cancel()
        ended_s = progress.elapsed_s
        findings: list[Finding] = []
        sold: list[tuple[float, int]] = []
        if options.checks and target.service_key:
            _enter(progress, show, "waiting until every hold has ended")
            # In an existing sale other buyers may hold units indefinitely.
            if not options.sale_id:
                await until_ended(monitor, offers, options)
            _enter(progress, show, "reading the ledger")
            await until_ledger_has_all(target, admin, options)
            ledger = await read_ledger(target, options, admin, offers, workers.records)
            findings = await check_records(target, options, workers.records, ledger, monitor.samples)
            sold = [(at + clock_offset_s, units) for at, units in ledger.sold()]
    origin = None
    if answered_before is not None:
        await asyncio.sleep(_ADDED_UP_S)
        answered = (await _answered(target, admin) or 0) - answered_before
        origin = OriginCount(answered, progress.elapsed_s, len(offers))
        answers = answers_of(workers.records, workers.tally)
        findings += [check_origin(answers, workers.tally, origin)] if findings else []
    return RushResult(
        options, target.engine, offers, progress.starts_at, ended_s, workers.tally, workers.records,
        monitor.samples, findings, workers.cpu_s, workers.memory_mb, sold, target.has_edge, origin,
    )  # fmt: skip


async def _answered(target: Target, admin: SaleAdmin) -> int | None:
    """The number of requests that the server behind our edge has answered, without our own."""
    if not target.origin_url:
        return None
    return await admin.requests_answered() - admin.sent


def _start(options: Options, clock_offset_s: float) -> float:
    """The start, on the monotonic clock."""
    soon = monotonic() + HEAD_START_S
    return soon if options.starts_at is None else max(soon, options.starts_at + clock_offset_s)


def _enter(progress: RushProgress, show: Show, phase: str) -> None:
    progress.phase = phase
    show(progress)


def _tasks(target: Target, options: Options, tag: str) -> list[Task]:
    host, port = target.host_and_port
    each = max(1, options.connections // options.processes)
    scenario = options.scenario
    if target.has_edge:
        scenario = replace(scenario, crowd=replace(scenario.crowd, edge_cache=False))
    return [
        Task(
            scenario, options.users, options.seed, tag, host, port, target.buyer_secret, target.service_key,
            options.part + options.parts * process, options.parts * options.processes, each, options.is_nice,
            target.buyer_claims,
        )
        for process in range(options.processes)
    ]  # fmt: skip


async def _adopt_sale(target: Target, admin: SaleAdmin, options: Options) -> Options:
    """An existing sale keeps its own payment terms, whatever the scenario says."""
    offer = await admin.offer(options.sale_id, 0)
    if offer.payment == "stripe":
        raise SettingsError(f"the sale {options.sale_id} is paid with Stripe, and simulated buyers have no cards")
    if offer.payment in ("wallet", "external") and not target.service_key:
        raise SettingsError(
            f"the sale {options.sale_id} uses {offer.payment} payments: set HOLDFAST_SERVICE_KEY to "
            + ("fill the buyers' wallets" if offer.payment == "wallet" else "confirm their reservations")
        )
    terms = {"payment": offer.payment, "price": offer.price, "currency": offer.currency, "products": 1}
    return replace(options, scenario=replace(options.scenario, sale=replace(options.scenario.sale, **terms)))


async def _open_sales(admin: SaleAdmin, options: Options, tag: str) -> list[Offer]:
    if options.sale_id:
        return [await admin.offer(options.sale_id, 0)]
    products = options.scenario.sale.products
    await admin.create_sales(options.scenario, tag, options.units, opening(options.scenario, HEAD_START_S))
    return [
        await admin.offer(sale_id_of(tag, product), units_of(options.units, products, product))
        for product in range(products)
    ]


def _longest_s(options: Options) -> float:
    scenario = options.scenario
    return LONGEST_S + scenario.arrival.over_seconds + scenario.sale.opens_after_seconds


async def until_ended(monitor: StockMonitor, offers: list[Offer], options: Options) -> None:
    """Waits until nothing is held, or until every hold should have ended."""
    until = monotonic() + 2 * max(offer.hold_s for offer in offers) + options.ending_s
    while monotonic() < until:
        with suppress(HoldfastError):
            if (await monitor.sample()).held == 0:
                return
        await asyncio.sleep(_POLL_S)


async def until_ledger_has_all(target: Target, admin: SaleAdmin, options: Options) -> None:
    """In Redis mode, lists come from a ledger that lags slightly behind the stock, so they can be compared only once
    the ledger has the whole journal. If that takes too long, the checks report what is missing."""
    if target.engine not in ("", "redis"):
        return
    until, first = monotonic() + options.ending_s, ""
    while monotonic() < until:
        with suppress(HoldfastError):
            lags = await admin.lags()
            if lags is None:
                return
            first = first or lags.as_of
            # The first response may be a second old.
            if lags.as_of != first and not lags.journal.items:
                return
        await asyncio.sleep(_POLL_S)


async def read_ledger(
    target: Target, options: Options, admin: SaleAdmin, offers: list[Offer], records: list[BuyerRecord]
) -> LedgerSnapshot:
    has_wallets = offers[0].payment == "wallet" and not options.sale_id
    owners = [one.buyer_id for one in records if one.grants and one.credited] if has_wallets else []
    return await read_snapshot(admin, offers, target.sandbox_url, owners)


async def check_records(
    target: Target, options: Options, records: list[BuyerRecord], ledger: LedgerSnapshot, samples: list[Sample]
) -> list[Finding]:
    is_exclusive = not options.sale_id
    findings = check(Evidence(records, ledger, samples, users=options.users, is_exclusive=is_exclusive))
    if target.database_url:
        findings.append(await _verify(target))
    return findings


async def _verify(target: Target) -> Finding:
    """Runs `holdfast verify` on the ledger of a server that we started, and against its payment sandbox."""
    payments = await read_sandbox_payments(target.sandbox_url) if target.sandbox_url else None

    def work(connection: Connection) -> list[Any]:
        found = prove(connection)
        return found if payments is None else [*found, *compare(connection, payments)]

    found = await look(target.database_url, work)
    refuted = [one for one in found if not one.ok]
    # All activity has ended, so nothing may still be open.
    still_open = [one for one in found if one.level is Level.OPEN and one.count]
    examples = [f"{one.name}: {one.count} found, such as {one.examples[:1]}" for one in [*refuted, *still_open]]
    means = f"`holdfast verify` finds the ledger consistent ({len(found)} checks)."
    return Finding("ledger_proven", means, sum(one.looked_at for one in found), len(examples), examples)
