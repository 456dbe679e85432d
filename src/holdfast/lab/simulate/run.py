"""One run: a sale from its opening to its end, first with faults, then without, followed by the checks.

Everything follows from the seed: the scenario, the faults, every delay and every random number. To leave some faults
out, the caller can pass the faults instead.
"""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from msgspec import Struct

from holdfast.domain.sale.sale import PaymentKind, Room, RoomMode, Sale
from holdfast.domain.stock.outcome import Outcome
from holdfast.lab.simulate import faults as plan
from holdfast.lab.simulate import scenario as scenarios
from holdfast.lab.simulate.buyers.buyer import Buyer, Told
from holdfast.lab.simulate.determinism import Log, controlled
from holdfast.lab.simulate.faults import Fault
from holdfast.lab.simulate.invariants import (
    Violation,
    check_end,
    check_refusals,
    check_told,
    check_webhooks,
    given_up_in,
    reservations_of,
)
from holdfast.lab.simulate.line_invariants import check_line, check_room_refusals
from holdfast.lab.simulate.loop import Host, SimulatedLoop, Stuck
from holdfast.lab.simulate.process import Process
from holdfast.lab.simulate.scenario import CURRENCY, SALE_ID, SKU_ID, Scenario
from holdfast.lab.simulate.trace import Trace
from holdfast.lab.simulate.world import World
from holdfast.ledger.events.webhooks import create_webhook
from holdfast.sales.operations import Created

# By then buyers have left, and most faults have ended.
SHOPPING_MAX_S = 60.0
# Longer than any lease, and than the retries after a few failures.
SETTLING_MAX_S = 400.0
LOOK_S = 1.0


class Report(Struct, frozen=True):
    seed: int
    scenario: Scenario
    faults: Sequence[Fault]
    violations: Sequence[Violation]
    trace: Trace
    simulated_s: float
    steps: int

    @property
    def ok(self) -> bool:
        return not self.violations


def run(seed: int, faults: Sequence[Fault] | None = None, engine: str = "sql") -> Report:
    scenario = scenarios.draw(Random(f"{seed} scenario"))
    channels = ["gate", "gate", "settling", "write", "read", "api"]
    if scenario.payment is PaymentKind.SANDBOX:
        channels += ["payments", "payments"]
    if scenario.has_webhook:
        channels += ["webhooks"]
    if engine == "redis":
        channels = ["batch", "batch", "redis", *channels[2:]]
    if faults is None:
        rng = Random(f"{seed} faults")
        faults = plan.draw(rng, scenario.hosts, channels) + ([plan.draw_going_back(rng)] if scenario.goes_back else [])
        faults += plan.draw_of_redis(rng, scenario.hosts) if engine == "redis" else []
    loop = SimulatedLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    trace = Trace(loop)
    log = Log()
    with controlled(Random(f"{seed} product"), loop, log), _garbage_kept():
        world = World(loop, trace, scenario, Random(f"{seed} world"), engine, faults)
        log.note = world.log
        try:
            loop.run_until_complete(_tell(world, list(faults)))
        except Stuck as exc:
            world.violated("stuck", str(exc))
        finally:
            simulated_s, steps = loop.now_s, loop.steps
            loop.finish()
            world.server.close()
    return Report(seed, scenario, list(faults), world.violations, trace, simulated_s, steps)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """A run is short, and garbage collection would take a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def _tell(world: World, faults: list[Fault]) -> None:
    """Drives the sale from start to end."""
    for process in world.apis:
        process.start()
    await _until_up(world.apis)
    await _open_sale(world)
    for process in world.workers:
        process.start()
    world.inflict(faults)
    shopping = [world.loop.run_on(Host(shopper.buyer_id), buyer.shop()) for shopper, buyer in _pairs(world)]
    await asyncio.wait(shopping, timeout=SHOPPING_MAX_S)
    world.heal()
    await _settle(world)
    await _buy_the_rest(world)
    await _settle(world)
    _check(world)


def _pairs(world: World) -> list[tuple[scenarios.Shopper, Buyer]]:
    return list(zip(world.scenario.shoppers, world.buyers(), strict=True))


async def _until_up(processes: Sequence[Process]) -> None:
    for process in processes:
        await process.is_up.wait()


async def _open_sale(world: World) -> None:
    scenario, process = world.scenario, world.apis[0]
    services, database = process.services, process.database
    assert services is not None
    assert database is not None
    now = await database.read(database.now_ms)
    starts_at = now + 5_000
    ends_at = None if scenario.ends_s is None else starts_at + round(scenario.ends_s * 1000)
    sale = Sale(
        sale_id=SALE_ID,
        sku_id=SKU_ID,
        name="Lamp",
        price_amount=scenario.price,
        currency=CURRENCY,
        starts_at=starts_at,
        ends_at=ends_at,
        checkout=scenario.checkout,
        payment=scenario.payment,
        loaded_units=scenario.units,
        per_buyer_limit=scenario.per_buyer_limit,
        hold_seconds=scenario.hold_s,
        room=_room(scenario),
    )
    created = await services.sale_operations.create(sale)
    assert isinstance(created, Created), created
    if scenario.payment is PaymentKind.WALLET and scenario.price:
        for shopper in scenario.shoppers:
            amount = scenario.price * (3 if shopper.has_money else 1)
            await services.payments.wallet.credit(shopper.buyer_id, amount, CURRENCY, "first")
    if scenario.has_webhook:
        url = "https://shop.invalid/hook"
        hook = await database.write(lambda c: create_webhook(c, url, ["*"], None, database.now_ms(c)))
        world.webhook_since = hook.relayed_seq
    await asyncio.sleep((starts_at - world.server.now_ms()) / 1000)


def _room(scenario: Scenario) -> Room:
    plan = scenario.room
    return Room() if plan is None else Room(RoomMode.FIFO, plan.rate_per_second, plan.pass_seconds)


async def _settle(world: World) -> None:
    """Waits until nothing is in progress."""
    until = world.loop.now_s + SETTLING_MAX_S
    while left := [*world.unfinished(), *world.closed()]:
        if world.loop.now_s > until:
            for what, id_, state in left:
                world.violated("I4", f"{what} {id_} is still {state} after {SETTLING_MAX_S:.0f} s without faults")
            return
        await asyncio.sleep(LOOK_S)


async def _buy_the_rest(world: World) -> None:
    """I10: every free unit can still be bought."""
    if world.scenario.ends_s is not None:
        return
    for number in range(_free_units(world)):
        late = scenarios.late_shopper(f"late-{number}")
        buyer = Buyer(late, world.scenario, world.api, world.any_api, [], world.stood)
        # A response lost before healing may still block the pool's queue.
        reservation = await world.loop.run_on(Host(late.buyer_id), buyer.buy())
        # An earlier request, whose process was paused, may have taken the unit in the meantime.
        if reservation is None and (free := _free_units(world)):
            world.violated("I10", f"{late.buyer_id} cannot buy, and {free} units are free")
        if reservation is None:
            return


def _free_units(world: World) -> int:
    [(free,)] = world.server.raw.execute("SELECT total - held - sold FROM pools")
    return int(free)


def _check(world: World) -> None:
    raw = world.server.raw
    told = [*check_told(_told(world), raw, world.scenario.hold_s, world.api.repeated_for)]
    told += [] if world.lost else check_refusals(world.told, raw)
    if world.scenario.room is not None:
        told += check_line(raw, world.stood)
        told += [] if world.lost else check_room_refusals(world.stood, raw)
    if world.server.generation:
        told = _after_going_back(world, told)
    elif world.scenario.has_webhook:
        told += check_webhooks(raw, world.receiver.received, world.webhook_since)
    for violation in told:
        world.violated(violation.invariant, violation.detail)
    for found in world.server.read(lambda c: list(check_end(c, world.books.page(0, len(world.books))))):
        world.violated(found.invariant, found.detail)


def _told(world: World) -> list[Told]:
    """Responses to buyers, except buyers who lost something that Redis lost before the ledger had it."""
    sold = {one.reservation_id for one in world.told if (one.what, one.answer) in _SOLD}
    losers = {one.buyer_id for one in world.told if one.reservation_id in world.lost - sold}
    # The next rebuild restores a sale that Redis lost; a read before that returns what Redis has.
    told = [one for one in world.told if one.what != "look" or one.reservation_id not in world.lost]
    return [one for one in told if one.buyer_id not in losers or one.answer == "defect"]


def _after_going_back(world: World, told: list[Violation]) -> list[Violation]:
    """Whatever was lost with the ledger must be known to be lost: reported to an operator, unless every witness
    crashed."""
    given_up = given_up_in(world.server.raw)
    granted = [one for one in told if one.invariant == "I9" and "was granted" in one.detail]
    lost = [one for one in granted if not any(id_ in one.detail for id_ in given_up)]
    if world.redis is not None:
        # Redis knows which reservations are held, but nothing about ended ones; it needs no witness.
        held = world.kept if world.is_redis_whole else set()
        missing = held - set(given_up) - reservations_of(world.server.raw).keys()
        lost = [Violation("I9", f"{id_} was held in Redis when the ledger went back") for id_ in sorted(missing)]
    elif world.has_lost_witnesses:
        lost = []
    return [one for one in told if one.invariant in _UNAFFECTED] + lost


# The ledger claims the sale before any buyer gets these responses.
_SOLD = (("confirm", Outcome.MOVED), ("confirm", Outcome.ALREADY))
# The other invariants concern statuses and keys, which may have been lost with the ledger.
_UNAFFECTED = ("I7", "I8", "no_defects")
