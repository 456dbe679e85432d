"""Everything that can happen to one settlement: workers that die, replies that are lost, callers that interfere.

A node is the case as the ledger has it, the effect a worker is about to run, and what is really true outside the
ledger. `successors` gives every node that can follow, so a search finds all that can be reached.
"""

from collections.abc import Iterator
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.sale.settling import advance
from holdfast.domain.sale.settling_case import (
    AuthenticationRequested,
    Case,
    Discarded,
    Effect,
    EffectFailed,
    Event,
    Funding,
    GateAcknowledged,
    OrderSource,
    PaymentStatus,
    ProviderReplied,
    Reacquired,
    Resumed,
    Work,
)
from holdfast.domain.stock.command import Transition
from holdfast.domain.stock.reservation import Status

AMOUNT = 7
P = PaymentStatus


class World(Struct, frozen=True, kw_only=True):
    """What really happened: `held` is the provider's own status of the payment, the rest are counts. It is ATTEMPTED
    while the bank asks the buyer."""

    held: PaymentStatus | None = None
    taken: int = 0
    orders: int = 0
    refunds: int = 0
    replacements: int = 0
    endings: int = 0
    # Redis only: the gate has returned or reopened the units, and the ledger has not read it yet.
    is_returned: bool = False
    is_reopened: bool = False


class Node(Struct, frozen=True):
    case: Case
    pending: Effect | None
    world: World


def initial_nodes() -> Iterator[Node]:
    for funding, notifies, has_funds, amount in product([None, *Funding], *[(False, True)] * 2, (0, AMOUNT)):
        case = Case(
            funding=funding, notifies_gate=notifies, has_funds=has_funds, amount=amount, attempts_max=2,
            payment_attempts_max=2, parks_after_attempts=has_funds and notifies,
        )  # fmt: skip
        yield Node(case, None, World())
    # A replacement begins with the money that was taken for the reservation before it.
    for notifies in (False, True):
        captured = Case(payment=P.CAPTURED, amount=AMOUNT, notifies_gate=notifies, attempts_max=2)
        yield Node(captured, None, World(held=P.CAPTURED, taken=1))


def reachable() -> dict[Node, set[Node]]:
    """Every node, with those that can follow it."""
    edges: dict[Node, set[Node]] = {}
    waiting = list(initial_nodes())
    while waiting:
        node = waiting.pop()
        if node not in edges:
            edges[node] = set(successors(node))
            waiting += edges[node]
    return edges


def successors(node: Node) -> Iterator[Node]:
    case, world = node.case, node.world
    if node.pending is not None:
        # The worker dies.
        yield replace(node, pending=None)
        for changed, event in outcomes(node.pending, case, world):
            yield post(case, changed, event)
    elif case.is_open:
        yield post(case, world, Resumed())
    if case.work is Work.PARKED:
        yield from operator(case, world)
    if case.work is Work.DONE and case.reservation is Status.ACTIVE:
        yield from next_attempt(case, world)
    if case.work is Work.DONE and case.funding is Funding.PROVIDER and case.payment in (P.NEW, P.DECLINED, P.VOIDED):
        # A webhook makes the audit open it again, to look the payment up.
        reopened = replace(case, work=Work.WAITING, ending=None, attempts=0, is_reacquiring=False, payment=P.ATTEMPTED)
        yield Node(reopened, None, world)
    yield from interference(node)


def post(case: Case, world: World, event: Event) -> Node:
    """As the ledger does: advance, run the ledger's effects, store the case."""
    after, effects = advance(case, event)
    for effect in effects:
        world = ledger_effect(effect, after, world)
    pauses = (Effect.RETRY_LATER, Effect.CHECK_SOON, Effect.AWAIT_BUYER)
    last = effects[-1] if effects and after.is_open and effects[-1] not in pauses else None
    # Attempts beyond the maximum, which only notifying the gate has, make no difference.
    attempts = min(after.attempts, after.attempts_max)
    flags = ("is_unanswered", "is_verified", "is_looked_up", "is_refused")
    forgotten = replace(after, attempts=attempts, failure=None, **dict.fromkeys(flags, False))
    return Node(forgotten, last, world)


def next_attempt(case: Case, world: World) -> Iterator[Node]:
    """The buyer pays again, cancels, or does nothing until the deadline. The next payment has a key of its own."""
    begun = replace(
        case,
        work=Work.WAITING,
        ending=None,
        attempts=0,
        reservation=Status.SETTLING,
        payment=None,
        payment_reason=None,
        reference=None,
        reason=None,
        payment_attempt=case.payment_attempt + 1,
        has_funds=True,
    )
    if case.payment is not P.CAPTURED and world.held is not P.CAPTURED:
        yield Node(begun, None, replace(world, held=None))
    for status in (Status.CANCELLED, Status.EXPIRED):
        yield Node(replace(case, reservation=status), None, replace(world, endings=world.endings + 1))


def ledger_effect(effect: Effect, case: Case, world: World) -> World:
    match effect:
        case Effect.DEBIT_WALLET:
            return replace(world, taken=world.taken + 1)
        case Effect.SELL:
            return replace(world, orders=world.orders + 1, endings=world.endings + 1)
        case Effect.RETURN_UNITS if not case.notifies_gate:
            return replace(world, endings=world.endings + 1)
        case Effect.OWE_REFUND:
            return replace(world, refunds=world.refunds + 1)
    return world


def outcomes(effect: Effect, case: Case, world: World) -> Iterator[tuple[World, Event]]:
    """What running an effect can lead to. A reply may be lost before or after the effect took place."""
    unknown = EffectFailed(effect, "no reply")
    yield world, unknown
    match effect:
        case Effect.REACQUIRE:
            assert case.is_reacquiring, "the replacement would not find the money, and charge again"
            # Idempotent by its key, so it is granted once.
            yield world, Reacquired("sold_out")
            granted = replace(world, replacements=1)
            yield granted, Reacquired()
            yield granted, unknown
        case Effect.NOTIFY_GATE:
            is_open = case.reservation is Status.SETTLING
            heard = replace(
                world,
                is_returned=case.ending is Transition.FAIL and is_open,
                is_reopened=case.ending is Transition.REOPEN and is_open,
            )
            yield heard, GateAcknowledged()
            yield heard, unknown
        case _:
            for held in provider(effect, world.held):
                is_new = held is P.CAPTURED and world.held is not P.CAPTURED
                changed = replace(world, held=held, taken=world.taken + is_new)
                yield changed, unknown
                replied = ProviderReplied(held, AMOUNT, is_looked_up=effect is Effect.LOOK_UP)  # type: ignore[arg-type]
                yield changed, AuthenticationRequested() if held is P.ATTEMPTED else replied


def provider(effect: Effect, held: PaymentStatus | None) -> tuple[PaymentStatus | None, ...]:
    match effect, held:
        case Effect.AUTHORISE, None:
            return P.AUTHORISED, P.DECLINED, P.ATTEMPTED
        case Effect.CAPTURE, P.AUTHORISED:
            return P.CAPTURED, P.VOIDED
        case Effect.VOID, P.AUTHORISED | P.ATTEMPTED:
            return (P.VOIDED,)
    return (held,)


def operator(case: Case, world: World) -> Iterator[Node]:
    yield Node(replace(case, work=Work.WAITING, attempts=0), None, world)
    # Refused while money is out; what is only authorised is voided first.
    if case.payment is not P.CAPTURED and world.held is not P.CAPTURED:
        held = P.VOIDED if world.held in (P.AUTHORISED, P.ATTEMPTED) else world.held
        yield post(replace(case, work=Work.WAITING), replace(world, held=held), Discarded())


def interference(node: Node) -> Iterator[Node]:
    """What others do meanwhile, while a worker waits for its effect."""
    case, world = node.case, node.world
    if case.is_open:
        yield replace(node, case=replace(case, has_units=not case.has_units))
    if world.held is P.AUTHORISED:
        # An authorisation that is not captured is voided by the provider in the end.
        yield replace(node, world=replace(world, held=P.VOIDED))
    if world.held is P.ATTEMPTED:
        # The buyer answers the bank, or refuses; the script or the provider tells no one else.
        yield replace(node, world=replace(world, held=P.AUTHORISED))
        yield replace(node, world=replace(world, held=P.DECLINED))
        yield replace(node, case=replace(case, is_unanswered=True)) if case.is_open else node
    if world.replacements and case.is_reacquiring and not case.has_replacement:
        yield replace(node, case=replace(case, has_replacement=True))
        # A gate can lose what the ledger has not read.
        yield replace(node, world=replace(world, replacements=0)) if case.notifies_gate else node
    if case.reservation is not Status.SETTLING:
        return
    if case.is_open and not case.is_overdue:
        yield replace(node, case=replace(case, is_overdue=True))
    if world.is_reopened:
        # The ledger reads it, or the gate loses it, or the deadline had passed when the gate decided.
        heard = replace(world, is_reopened=False)
        yield Node(replace(case, reservation=Status.ACTIVE), node.pending, heard)
        yield replace(node, world=heard)
        failed = replace(heard, endings=world.endings + 1)
        yield Node(replace(case, reservation=Status.FAILED), node.pending, failed)
        return
    if case.ending is Transition.CONFIRM:
        # The ledger has claimed the units. The journal can only say the same.
        yield replace(node, case=replace(case, reservation=Status.CONFIRMED))
        return
    ended = replace(world, endings=world.endings + 1, is_returned=False)
    yield Node(replace(case, reservation=Status.FAILED), node.pending, ended)
    if world.is_returned:
        yield replace(node, world=replace(world, is_returned=False))
    else:
        sold = replace(case, reservation=Status.CONFIRMED, order=OrderSource.EXTERNAL)
        yield Node(sold, node.pending, ended)
