"""Buying in a sale: one reservation per idempotency key, however often the request is repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from msgspec import Struct

from holdfast.checkout.address_limits import AddressLimits
from holdfast.checkout.allowances import Allowances
from holdfast.checkout.attempt_limits import AttemptLimits
from holdfast.checkout.passes import Admission, Passes
from holdfast.checkout.payment_methods import PaymentMethods
from holdfast.checkout.quotes import QuoteRefused, Quotes
from holdfast.checkout.replays import Replays
from holdfast.checkout.waiting import Wait
from holdfast.domain.room.room import Use
from holdfast.domain.sale.quote import Quote
from holdfast.domain.sale.sale import MAX_AMOUNT, Checkout, RoomMode, Sale, SaleState
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import is_sku_id
from holdfast.domain.stock.reservation import Reservation, new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.gate.cached_refusal import CachedRefusal
from holdfast.ledger.money.payment_notes import Method
from holdfast.ledger.sales.allowances import Exceeded
from holdfast.room.challenge import Challenges, Entry
from holdfast.room.join_queue import JoinQueue
from holdfast.sales.catalogue import Catalogue

# On Python 3.11 a member of an enum takes thirty times as long to find as a global, and a purchase needs a dozen.
_ADMITTED, _REFUSED, _EXPIRED = Admission.ADMITTED, Admission.REFUSED, Admission.EXPIRED
_NOT_ASKED = Entry.NOT_ASKED
# Tuples: a set would hash the members, in Python.
_UNPROVEN = (Entry.MISSING, Entry.CAPTCHA_ASKED, Entry.UNVERIFIED, Entry.INVALID, Entry.FOREIGN)
_PROVEN_BEFORE = (Entry.EXPIRED, Entry.SPENT, Entry.REPEATED)
_RESERVED, _CLOSED, _NO_ROOM, _INSTANT = Outcome.RESERVED, SaleState.CLOSED, RoomMode.OFF, Checkout.INSTANT


class Wanted(Struct, frozen=True, gc=False):
    buyer_id: str
    tier: int
    key: str
    quantity: int
    min_quantity: int | None = None
    payment_method: Method | None = None
    # The pass as sent, if the sale has a waiting room.
    pass_: str | None = None
    # The solved challenge as sent, if the sale requires one and has no waiting room.
    proof: str | None = None
    quote_id: str | None = None
    # The address that a limit counts this buyer by, or None if it is exempt.
    address: Callable[[], str | None] = lambda: None


class Granted(Struct, frozen=True, gc=False):
    sale: Sale
    reservation: Reservation
    is_repeat: bool
    quote: Quote | None = None

    @property
    def price(self) -> tuple[int, str]:
        """The amount and its currency."""
        if self.quote is not None:
            return self.quote.amount, self.quote.currency
        return self.sale.amount_of(self.reservation.quantity), self.sale.currency


class Refused(Struct, frozen=True, gc=False):
    """By the gate."""

    sale: Sale
    verdict: Verdict


class CertainRefusal(Struct, frozen=True, gc=False):
    sale: Sale
    cached: CachedRefusal


class Denied(Enum):
    """Refused before the gate was called."""

    SALE_NOT_FOUND = auto()
    ADMISSION_REQUIRED = auto()
    AMOUNT_TOO_HIGH = auto()
    # Background work is too far behind to begin anything new.
    BUSY = auto()


class Unproven(Struct, frozen=True):
    """Refused because of the proof of work."""

    entry: Entry


class AddressLimitReached(Struct, frozen=True):
    sale: Sale


class AttemptLimitReached(Struct, frozen=True):
    sale: Sale


class DropLimitReached(Struct, frozen=True):
    """The buyer has reached the drop's limit."""

    sale: Sale
    exceeded: Exceeded


class QuoteNotUsable(Struct, frozen=True):
    sale: Sale
    refused: QuoteRefused


# A limit or a quote ruled it out before the gate was called.
NotReached = AddressLimitReached | AttemptLimitReached | DropLimitReached | QuoteNotUsable
Result = Granted | Refused | Denied | Unproven | NotReached


class PurchaseUnits:
    def __init__(
        self,
        catalogue: Catalogue,
        batcher: Batcher,
        passes: Passes,
        challenges: Challenges,
        replays: Replays,
        methods: PaymentMethods,
        address_limits: AddressLimits,
        attempt_limits: AttemptLimits,
        allowances: Allowances,
        quotes: Quotes,
        room: JoinQueue,
        nudge_settler: Callable[[], None],
    ) -> None:
        self._catalogue = catalogue
        self._batcher = batcher
        self._passes = passes
        self._challenges = challenges
        self._replays = replays
        self._methods = methods
        self._address_limits = address_limits
        self._attempt_limits = attempt_limits
        self._allowances = allowances
        self._quotes = quotes
        self._room = room
        self._nudge_settler = nudge_settler

    async def purchase(self, sale_id: str, wanted: Wanted, wait: Wait) -> Result:
        sale = self._catalogue.cached(sale_id) or await self._find_sale(sale_id)
        if sale is None:
            return Denied.SALE_NOT_FOUND
        if sale.amount_of(wanted.quantity) > MAX_AMOUNT:
            return Denied.AMOUNT_TOO_HIGH
        admission = self._passes.check(sale, wanted.buyer_id, wanted.pass_)
        if admission is _REFUSED:
            return Denied.ADMISSION_REQUIRED
        if admission is _ADMITTED and sale.room.mode is not _NO_ROOM:
            admission = await self._passes.recheck(sale, wanted.pass_)
        entry = await self._check_proof(sale, wanted) if _asks_for_proof(sale) else _NOT_ASKED
        if entry in _UNPROVEN:
            return Unproven(entry)
        if admission is _EXPIRED or entry in _PROVEN_BEFORE:
            otherwise = Denied.ADMISSION_REQUIRED if admission is _EXPIRED else Unproven(entry)
            return await self._granted_before(sale, wanted) or otherwise
        known = self._known_refusal(sale, wanted)
        refused = known if known is None or isinstance(known, Verdict) else await wait(known)
        if refused is not None:
            return Refused(sale, refused)
        is_limited = sale.purchase_attempts_max is not None
        if is_limited and not await self._attempt_limits.take(sale, wanted.buyer_id, wanted.key):
            return await self._granted_before(sale, wanted) or AttemptLimitReached(sale)
        return await self._decide(sale, wanted, wait)

    async def _decide(self, sale: Sale, wanted: Wanted, wait: Wait) -> Result:
        """The gate's decision. A limit or a quote may rule it out first; then the key can only return an earlier
        grant."""
        quote = None if wanted.quote_id is None else await self._find_quote(sale, wanted)
        if quote is None and wanted.quote_id is not None:
            return QuoteNotUsable(sale, QuoteRefused.MISMATCH)
        if quote is not None and (not_usable := await self._quotes.claim(quote, wanted.key)) is not None:
            return await self._granted_before(sale, wanted) or QuoteNotUsable(sale, not_usable)
        verdict = await self._reserve_within_limit(sale, _command(sale, wanted, quote), wanted, wait)
        if verdict is None:
            return await self._granted_before(sale, wanted) or AddressLimitReached(sale)
        if isinstance(verdict, Exceeded):
            return await self._granted_before(sale, wanted) or DropLimitReached(sale, verdict)
        if verdict.reservation is None:
            return Refused(sale, verdict)
        return self._granted(sale, verdict, verdict.reservation, quote)

    async def _granted_before(self, sale: Sale, wanted: Wanted) -> Granted | None:
        verdict = await self._replays.find(sale, _command(sale, wanted, None))
        quote = None if wanted.quote_id is None else await self._find_quote(sale, wanted)
        return None if verdict.reservation is None else self._granted(sale, verdict, verdict.reservation, quote)

    def certain_refusal(self, sale_id: str, wanted: Wanted) -> CertainRefusal | None:
        """The gate's current answer, if it is known. It is counted when it is sent, by `refuse`."""
        sale = self._catalogue.cached(sale_id)
        if (
            sale is None
            or _is_limited_before(sale)
            or sale.state is _CLOSED
            or _asks_for_proof(sale)
            or sale.amount_of(wanted.quantity) > MAX_AMOUNT
            or self._passes.check(sale, wanted.buyer_id, wanted.pass_) is not _ADMITTED
        ):
            return None
        cached = self._batcher.certain_refusal(sale.sku_id, wanted.buyer_id, _least(wanted), wanted.tier)
        return None if cached is None else CertainRefusal(sale, cached)

    def refuse(self, certain: CertainRefusal) -> Refused:
        return Refused(certain.sale, self._batcher.tell(certain.sale.sku_id, certain.cached))

    def key_of_pass(self, buyer_id: str, text: str) -> str | None:
        return self._passes.key_of(buyer_id, text)

    async def repeat(self, sale_id: str, wanted: Wanted) -> Result:
        """Finds what was granted under this key before, and grants nothing new."""
        sale = self._catalogue.cached(sale_id) or await self._find_sale(sale_id)
        if sale is None:
            return Denied.SALE_NOT_FOUND
        verdict = await self._replays.find(sale, _command(sale, wanted, None))
        if verdict.reservation is not None:
            quote = None if wanted.quote_id is None else await self._find_quote(sale, wanted)
            return self._granted(sale, verdict, verdict.reservation, quote)
        return Refused(sale, verdict) if verdict.outcome is Outcome.KEY_REUSED else Denied.BUSY

    async def _find_sale(self, sale_id: str) -> Sale | None:
        return await self._catalogue.find(sale_id) if is_sku_id(sale_id) else None

    async def _find_quote(self, sale: Sale, wanted: Wanted) -> Quote | None:
        assert wanted.quote_id is not None
        return await self._quotes.find(sale, wanted.buyer_id, wanted.quantity, wanted.quote_id)

    async def _check_proof(self, sale: Sale, wanted: Wanted) -> Entry:
        return await self._challenges.check(sale, wanted.buyer_id, wanted.proof, wanted.key)

    def _known_refusal(self, sale: Sale, wanted: Wanted) -> "Verdict | asyncio.Future[Verdict | None] | None":
        """The gate's answer if it is known, as `cached_refusal_with_key`. Limits outside the gate come first."""
        if _is_limited_before(sale) or sale.state is _CLOSED:
            return None
        return self._batcher.cached_refusal_with_key(sale.sku_id, wanted.buyer_id, _least(wanted), wanted.tier)

    def _reserve_within_limit(
        self, sale: Sale, command: Reserve, wanted: Wanted, wait: Wait
    ) -> Awaitable[Verdict | Exceeded | None]:
        """None if the address has reached its limit. Not a coroutine, like the next two: every purchase would pay
        for one."""
        address = None if sale.units_per_address is None else wanted.address()
        if address is None:
            return self._reserve_in_drop(sale, command, wanted, wait)
        return self._reserve_at_address(sale, address, command, wanted, wait)

    async def _reserve_at_address(
        self, sale: Sale, address: str, command: Reserve, wanted: Wanted, wait: Wait
    ) -> Verdict | Exceeded | None:
        if not await self._address_limits.take(sale, address, command):
            return None
        exceeded: list[Exceeded] = []

        async def decide() -> Verdict:
            verdict = await self._reserve_in_drop(sale, command, wanted, wait)
            if isinstance(verdict, Verdict):
                return verdict
            exceeded.append(verdict)
            return Verdict(Outcome.BUYER_LIMIT)

        verdict = await self._address_limits.decided(command, decide)
        return exceeded[0] if exceeded else verdict

    def _reserve_in_drop(
        self, sale: Sale, command: Reserve, wanted: Wanted, wait: Wait
    ) -> Awaitable[Verdict | Exceeded]:
        return self._allowances.reserve(
            sale, command, lambda: self._reserve(sale, command, wanted.payment_method, wait)
        )

    def _reserve(self, sale: Sale, command: Reserve, method: Method | None, wait: Wait) -> Awaitable[Verdict]:
        if sale.state is _CLOSED:
            return self._replays.find(sale, command)
        if method is not None and self._methods.are_used_by(sale):
            return self._reserve_with_method(sale, command, method, wait)
        return wait(self._batcher.submit(sale.sku_id, command))

    async def _reserve_with_method(self, sale: Sale, command: Reserve, method: Method, wait: Wait) -> Verdict:
        """The method is stored first, because an instant purchase may be charged as soon as it is granted."""
        await self._methods.note(sale, command.reservation_id, command.owner_id, command.quantity, method)
        verdict = await wait(self._batcher.submit(sale.sku_id, command))
        # With a quote, the first of two requests may have been granted this same reservation.
        granted = None if verdict.reservation is None else verdict.reservation.reservation_id
        is_of_another = verdict.outcome is Outcome.KEY_REUSED and command.quote_id is not None
        if granted != command.reservation_id and not is_of_another:
            await self._methods.forget(command.reservation_id)
        return verdict

    def _granted(self, sale: Sale, verdict: Verdict, granted: Reservation, quote: Quote | None) -> Granted:
        is_new = verdict.outcome is _RESERVED
        if is_new and sale.room.mode is not _NO_ROOM:
            self._room.note_use(sale.line_id, Use(granted.owner_id, granted.quantity))
        self._nudge_settler()
        return Granted(sale, granted, is_repeat=not is_new, quote=quote)


def _asks_for_proof(sale: Sale) -> bool:
    """Where there is a room, the proof was spent on a place in it."""
    return sale.proof_of_work is not None and sale.room.mode is _NO_ROOM


def _is_limited_before(sale: Sale) -> bool:
    """Whether a limit claims units before the gate decides."""
    return sale.units_per_address is not None or sale.purchase_attempts_max is not None


def _least(wanted: Wanted) -> int:
    return wanted.quantity if wanted.min_quantity is None else wanted.min_quantity


def _command(sale: Sale, wanted: Wanted, quote: Quote | None) -> Reserve:
    return Reserve(
        new_reservation_id(sale.sku_id, wanted.buyer_id) if quote is None else quote.reservation_id,
        wanted.buyer_id,
        wanted.quantity,
        _least(wanted),
        sale.hold_seconds * 1000,
        wanted.key,
        wanted.tier,
        settle=sale.checkout is _INSTANT,
        sale_id=sale.sale_id,
        method=None if wanted.payment_method is None else wanted.payment_method.id,
        quote_id=wanted.quote_id,
    )
