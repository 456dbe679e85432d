"""The steps of a payment that are not the ledger's: with the provider, and for another unit with the gate."""

from collections.abc import Awaitable, Callable, Mapping

import structlog

from holdfast.domain.command import Reserve
from holdfast.domain.outcome import Outcome
from holdfast.domain.settling import NOBODYS_KEY, Step, reacquired_id
from holdfast.domain.shards import whole_of
from holdfast.errors import EngineError
from holdfast.gate.port import Gate
from holdfast.ledger.settle_batch import Item
from holdfast.payments.port import Charge, Payment, PaymentProvider, PaymentState
from holdfast.settlement.case import Case, Failed, News, Reacquired, SetOut, Told
from holdfast.settlement.desk import Asked

log = structlog.get_logger()

# Whoever had paid was let in before.
ANY_TIER = 2**31 - 1
# Steps of one case in one go: the longest way has six. More would be two that lead to each other.
STEPS_MAX = 12

Post = Callable[[str, Asked], Awaitable[Case | None]]


class Fenced(Exception):
    """Somebody else has the lease."""


class Charger:
    def __init__(self, providers: Mapping[str, PaymentProvider], gate: Gate, post: Post) -> None:
        self._providers = providers
        self._gate = gate
        self._post = post

    async def settle(self, item: Item) -> Case:
        """Walk a case as far as it goes now."""
        case = await self._note(item, None)
        for _ in range(STEPS_MAX):
            step = case.step()
            if not case.is_open or step is Step.TELL:
                return case
            news = await self._take(step, case)
            case = await self._note(item, news)
            if isinstance(news, Failed | Reacquired):
                return case
        return await self._note(item, Failed(step, "it goes round in circles", is_final=True))

    async def _note(self, item: Item, news: News | None) -> Case:
        case = await self._post(item.sku_id, (item, news))
        if case is None:
            raise Fenced
        return case

    async def _take(self, step: Step, case: Case) -> News:
        if step is Step.WAIT:
            return Failed(step, "the ledger has no room for it yet")
        try:
            return await self._reacquire(case) if step is Step.REACQUIRE else await self._ask(step, case)
        except EngineError as exc:
            # Surely not reached, or nobody knows: either way the next look at it begins with what is written.
            return Failed(step, str(exc) or type(exc).__name__)
        except Fenced:
            raise
        except Exception as exc:
            log.exception("payment_step_failed", reservation_id=case.reservation_id, step=step)
            return Failed(step, repr(exc))

    async def _ask(self, step: Step, case: Case) -> News:
        assert case.kind is not None
        provider = self._providers.get(case.kind)
        if provider is None:
            return Failed(step, f"no payment provider {case.kind} is configured")
        told = await _call(provider, step, case)
        if told is not None and told.state is PaymentState.PENDING:
            return Failed(step, "the provider has not decided yet")
        return Told(told)

    async def _reacquire(self, case: Case) -> News:
        """Another unit, held for the money that came too late; it is then settled like any other."""
        item = Item(case.reservation_id, case.work["sku_id"], case.work["fence"])
        # First the money: whoever settles the new reservation must find it, and not take any again.
        await self._note(item, SetOut())
        quantity = case.work["quantity"]
        reserve = Reserve(
            reacquired_id(case.reservation_id),
            case.work["buyer_id"],
            quantity,
            quantity,
            key=f"{NOBODYS_KEY}again:{case.reservation_id}",
            tier=ANY_TIER,
            settle=True,
        )
        [verdict] = await self._gate.apply(whole_of(item.sku_id), [reserve])
        granted = None if verdict.reservation is None else verdict.reservation.reservation_id
        if verdict.outcome in (Outcome.RESERVED, Outcome.REPLAYED) and granted == reserve.reservation_id:
            return Reacquired()
        if verdict.outcome is Outcome.NOT_READY:
            return Failed(Step.REACQUIRE, "the gate is not ready")
        return Reacquired(f"no other unit: {verdict.outcome}")


async def _call(provider: PaymentProvider, step: Step, case: Case) -> Payment | None:
    payment = case.payment
    assert payment is not None
    known = Payment(payment["payment_key"], PaymentState.AUTHORISED, payment["reference"], amount=payment["amount"])
    match step:
        case Step.AUTHORISE:
            return await provider.authorise(_charge(payment))
        case Step.CAPTURE:
            return await provider.capture(known)
        case Step.VOID:
            return await provider.void(known)
        case _:
            return await provider.look_up(payment["payment_key"], payment["reference"])


def _charge(payment: dict[str, object]) -> Charge:
    names = ("amount", "currency", "buyer_id", "reservation_id", "sale_id", "method")
    return Charge(key=payment["payment_key"], **{name: payment[name] for name in names})  # type: ignore[arg-type]
