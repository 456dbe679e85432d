"""A rush from beginning to end: prepare, let the crowd in, wait until all has ended, read the books, judge.

What happens when it fails. A crowd that cannot begin (no server, no key, a sale that is refused) is an error, and no
verdict. Once it has begun there is always a verdict: who is still there after `LONGEST_S` is cut off, and counts as
someone whose purchase was under way; what has not ended by then is a finding.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import nullcontext, suppress
from time import monotonic, time
from typing import Any

import httpx
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.errors import HoldfastError, SettingsError
from holdfast.rush.books import Books, read_books
from holdfast.rush.checks import Evidence, Finding, check
from holdfast.rush.conductor import Conductor
from holdfast.rush.operator import Operator, opening, sale_id_of, units_of
from holdfast.rush.orders import Go, Task
from holdfast.rush.scenario import Scenario
from holdfast.rush.site import Site
from holdfast.rush.tally import Tally
from holdfast.rush.testimony import Testimony
from holdfast.rush.tokens import Tokens
from holdfast.rush.visitor import Offer
from holdfast.rush.watch import Sample, Watch
from holdfast.verify.check import Level
from holdfast.verify.prove import prove
from holdfast.verify.sandbox import compare
from holdfast.verify.sandbox import read_books as read_sandbox_books
from holdfast.verify.snapshot import look

# From "go" to the first arrival: every process has its list by then.
HEAD_START_S = 0.5
# Beyond the last arrival; a crowd that takes longer is not worth waiting for.
LONGEST_S = 900.0
# Beyond the longest hold, extended once: the expirer and the settler take moments.
ENDING_S = 60.0
_LOOK_S = 0.25


class Options(Struct, frozen=True):
    scenario: Scenario
    users: int
    units: int
    seed: int
    processes: int = 1
    connections: int = 256
    sale_id: str = ""
    """A sale that is there already; else as many as the scenario has are made."""
    checks: bool = True
    is_nice: bool = False
    ending_s: float = ENDING_S


class Scene(Struct):
    """How it stands, for whoever shows it."""

    options: Options
    conductor: Conductor
    watch: Watch | None = None
    starts_at: float = 0.0
    phase: str = "starting"

    @property
    def elapsed_s(self) -> float:
        return max(monotonic() - self.starts_at, 0.0) if self.starts_at else 0.0


class Rushed(Struct, frozen=True):
    """All that came of it."""

    options: Options
    engine: str
    offers: list[Offer]
    starts_at: float
    ended_s: float
    tally: Tally
    testimonies: list[Testimony]
    samples: list[Sample]
    findings: list[Finding]
    cpu_s: float
    memory_mb: float
    sold: list[tuple[float, int]] = []
    """When units were sold, as the books have it, and how many; nothing if they were not read."""

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


Show = Callable[[Scene], None]


async def rehearse(site: Site, options: Options, show: Show = lambda _scene: None) -> Rushed:
    conductor, operator = Conductor(), Operator(site.checked_url, site.service_key)
    scene = Scene(options, conductor)
    try:
        return await _rehearse(site, scene, operator, show)
    finally:
        await conductor.close()
        await operator.close()


async def _rehearse(site: Site, scene: Scene, operator: Operator, show: Show) -> Rushed:
    conductor, tag = scene.conductor, secrets.token_hex(4)
    await operator.greet(Tokens(site.buyer_secret).bearer(f"rush-{tag}"))
    if scene.options.sale_id:
        scene.options = await _as_it_is(site, operator, scene.options)
    options = scene.options
    _tell(scene, show, "filling wallets" if options.scenario.sale.payment == "wallet" else "getting ready")
    await conductor.prepare(_tasks(site, options, tag))
    await _make_trouble(site, options)
    offers, ahead_s = await _open_sales(operator, options, tag), monotonic() - time()
    watch = scene.watch = Watch(operator, offers)
    scene.starts_at = monotonic() + HEAD_START_S
    _tell(scene, show, "rush")
    async with watch.running() if site.service_key else nullcontext():
        cutting = asyncio.get_running_loop().call_later(_longest_s(options), conductor.cut_off)
        await conductor.play(Go(offers, scene.starts_at), lambda: show(scene))
        cutting.cancel()
        ended_s = scene.elapsed_s
        findings: list[Finding] = []
        sold: list[tuple[float, int]] = []
        if options.checks and site.service_key:
            _tell(scene, show, "waiting until every hold has ended")
            await _until_ended(watch, offers, options)
            _tell(scene, show, "reading the books")
            books = await _read_books(site, options, operator, offers, conductor.testimonies)
            findings = await _judge(site, options, conductor.testimonies, books, watch)
            sold = [(at + ahead_s, units) for at, units in books.sold()]
    return Rushed(
        options, site.engine, offers, scene.starts_at, ended_s, conductor.tally, conductor.testimonies,
        watch.samples, findings, conductor.cpu_s, conductor.memory_mb, sold,
    )  # fmt: skip


def _tell(scene: Scene, show: Show, phase: str) -> None:
    scene.phase = phase
    show(scene)


def _tasks(site: Site, options: Options, tag: str) -> list[Task]:
    host, port = site.host_and_port
    parts = options.processes
    each = max(1, options.connections // parts)
    return [
        Task(
            options.scenario, options.users, options.seed, tag, host, port, site.buyer_secret, site.service_key,
            part, parts, each, options.is_nice,
        )
        for part in range(parts)
    ]  # fmt: skip


async def _make_trouble(site: Site, options: Options) -> None:
    """The payment provider's own: lost replies and errors, which a settler must see through."""
    share = options.scenario.crowd.card_troubles
    if site.sandbox_url and share:
        faults = {"seed": options.seed, "lost_reply": share / 2, "error": share / 2}
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.put(f"{site.sandbox_url}/faults", json=faults)).raise_for_status()


async def _as_it_is(site: Site, operator: Operator, options: Options) -> Options:
    """A sale that is there already is paid for as it says, whatever the scenario has."""
    offer = await operator.offer(options.sale_id, 0)
    if offer.payment == "stripe":
        raise SettingsError(f"the sale {options.sale_id} is paid with Stripe, and the crowd has no cards")
    if offer.payment in ("wallet", "external") and not site.service_key:
        raise SettingsError(
            f"the sale {options.sale_id} is paid by {offer.payment}: set HOLDFAST_SERVICE_KEY, to "
            + ("fill the buyers' wallets" if offer.payment == "wallet" else "confirm what they pay for")
        )
    terms = {"payment": offer.payment, "price": offer.price, "currency": offer.currency, "products": 1}
    return replace(options, scenario=replace(options.scenario, sale=replace(options.scenario.sale, **terms)))


async def _open_sales(operator: Operator, options: Options, tag: str) -> list[Offer]:
    if options.sale_id:
        return [await operator.offer(options.sale_id, 0)]
    products = options.scenario.sale.products
    await operator.make_sales(options.scenario, tag, options.units, opening(options.scenario, HEAD_START_S))
    return [
        await operator.offer(sale_id_of(tag, product), units_of(options.units, products, product))
        for product in range(products)
    ]


def _longest_s(options: Options) -> float:
    scenario = options.scenario
    return LONGEST_S + scenario.arrival.over_seconds + scenario.sale.opens_after_seconds


async def _until_ended(watch: Watch, offers: list[Offer], options: Options) -> None:
    """Until nothing is held any more, or should not have been for a while. In a sale of others that may be never."""
    until = monotonic() + 2 * max(offer.hold_s for offer in offers) + options.ending_s
    while not options.sale_id and monotonic() < until:
        with suppress(HoldfastError):
            if (await watch.look()).held == 0:
                return
        await asyncio.sleep(_LOOK_S)


async def _read_books(
    site: Site, options: Options, operator: Operator, offers: list[Offer], testimonies: list[Testimony]
) -> Books:
    has_wallets = offers[0].payment == "wallet" and not options.sale_id
    owners = [one.buyer_id for one in testimonies if one.grants and one.credited] if has_wallets else []
    return await read_books(operator, offers, site.sandbox_url, owners)


async def _judge(
    site: Site, options: Options, testimonies: list[Testimony], books: Books, watch: Watch
) -> list[Finding]:
    findings = check(Evidence(testimonies, books, watch.samples, is_alone=not options.sale_id))
    if site.database_url:
        findings.append(await _verify(site))
    return findings


async def _verify(site: Site) -> Finding:
    """`holdfast verify` on the ledger of a server that we started, and against the books of its payment sandbox."""
    payments = await read_sandbox_books(site.sandbox_url) if site.sandbox_url else None

    def work(connection: Connection) -> list[Any]:
        found = prove(connection)
        return found if payments is None else [*found, *compare(connection, payments)]

    found = await look(site.database_url, work)
    refuted = [one for one in found if not one.ok]
    # All has ended, so what is under way will not be done any more.
    left = [one for one in found if one.level is Level.OPEN and one.count]
    examples = [f"{one.name}: {one.count} found, such as {one.examples[:1]}" for one in [*refuted, *left]]
    means = f"`holdfast verify` proves it from the ledger alone ({len(found)} checks)."
    return Finding("ledger_proven", means, sum(one.looked_at for one in found), len(examples), examples)
