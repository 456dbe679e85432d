"""Two sales from their creation to their end, run by the parts of the server on one engine and by a set clock.

Bought by wallet and by card, in part and in full; declined, cancelled, extended, expired, refunded, restocked; with
waiting rooms by arrival and by lot, places left, and webhooks delivered. The payment provider is the sandbox's own
ledger, so its books are real.
"""

from decimal import Decimal

from msgspec.structs import replace
from sqlalchemy import Connection, Table, select, update

from holdfast.checkout.quotes import Quotes
from holdfast.domain.room.room import Admit, Join, Leave, Use
from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.quote import Quote
from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale
from holdfast.domain.stock.command import Command, Extend, Move, Provision, Reserve, Transition, Verdict
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_audit import SqlAudit
from holdfast.lab.sandbox.entry import Entry
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.lab.sandbox.store import Store
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import Attempt, Result, finish, lease
from holdfast.ledger.events.webhooks import create_webhook
from holdfast.ledger.money.payment_notes import Method, note_method
from holdfast.ledger.money.refunds import Wanted
from holdfast.ledger.money.wallet import Wallet
from holdfast.ledger.sales.address_units import take_units
from holdfast.ledger.sales.sale_lists import list_orders
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.stock.shared_reads import look_into
from holdfast.ledger.tables.money import settlements
from holdfast.payments.port import Charge, Payment, PaymentPage, PaymentState, Refund, RefundRefused
from holdfast.payments.rates import FixedRates
from holdfast.payments.sandbox.refused import Refused
from holdfast.room.join_queue import JoinQueue
from holdfast.room.line_advancer import LineAdvancer
from holdfast.runtime.sealing import Sealer
from holdfast.runtime.signing import SigningKey
from holdfast.sales.drop_operations import CreatedDrop, DropOperations
from holdfast.sales.inspection import Inspector
from holdfast.sales.lifecycle import SaleLifecycle
from holdfast.sales.loading import Loader
from holdfast.sales.operations import Created, SaleOperations
from holdfast.settlement.compensate import Compensator
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.posting import Posting
from holdfast.settlement.refund import Refunder
from holdfast.settlement.settler import Settler
from holdfast.testing.states import MINUTE, NOW
from holdfast.webhooks.relay import Relay
from linked import link_all
from set_clock import SetClock

SEALER = Sealer([SigningKey("k", "s" * 32)])
PASS_MS = 60_000
STARTS_AT = NOW + 10 * MINUTE
BY_WALLET = Sale(
    sale_id="drop",
    sku_id="sneaker",
    name="Drop",
    description="One drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=STARTS_AT,
    ends_at=STARTS_AT + 60 * MINUTE,
    per_buyer_limit=4,
    units_per_address=10,
    checkout=Checkout.INSTANT,
    payment=PaymentKind.WALLET,
    loaded_units=20,
    room=Room(RoomMode.FIFO, 50, 60),
)
BY_CARD = replace(
    BY_WALLET,
    sale_id="cards",
    sku_id="hat",
    checkout=Checkout.CART,
    payment=PaymentKind.SANDBOX,
    units_per_address=None,
    loaded_units=12,
    room=Room(RoomMode.LOTTERY, 50, 60),
)


class LocalSandbox:
    """The sandbox without HTTP. The card `declined` is declined."""

    def __init__(self) -> None:
        self.ledger = SandboxLedger(Store(None), lambda _entry: None)

    async def authorise(self, charge: Charge) -> Payment:
        entry = self.ledger.authorise(charge, decline="card_declined" if charge.method == "declined" else None)
        assert isinstance(entry, Entry)
        return entry.payment()

    async def capture(self, payment: Payment) -> Payment:
        entry = self.ledger.capture(payment.key)
        assert isinstance(entry, Entry)
        return entry.payment()

    async def void(self, payment: Payment) -> Payment:
        return replace(payment, state=PaymentState.VOIDED)

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        done = self.ledger.refund(payment.key, key, amount)
        if isinstance(done, Refused):
            raise RefundRefused(done.detail)
        return Refund(key, done.reference, amount, is_done=True)

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        entry = self.ledger.find(key)
        return None if entry is None else entry.payment()

    async def next_action(self, key: str, reference: str) -> None:
        """No bank asks here."""

    async def list_since(self, since: int, after: str | None = None) -> PaymentPage:
        return PaymentPage([])

    async def close(self) -> None:
        """Nothing is open."""


class FinishedSale:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = SetClock(database)
        self.gate = SqlGate(self.clock)
        self.sandbox = LocalSandbox()
        self.desk = JoinQueue(self.clock, timeout_s=60.0)
        self.advancer = LineAdvancer(self.clock, look_into(self.clock), SEALER)
        self.wallet = Wallet(self.clock)
        self.refunder = Refunder(self.clock, {"sandbox": self.sandbox})
        self.compensator = Compensator(self.clock, self.gate, self.refunder)
        posting = Posting(self.clock, has_redis=False, attempts_max=12)
        interpreter = Interpreter(self.clock, self.gate, posting, {"sandbox": self.sandbox})
        self.settler = Settler(self.clock, posting, interpreter)
        inspector = Inspector(Reconciler(self.clock, SqlAudit(self.clock)), _nothing_to_catch_up)
        loader = Loader(self.clock, self.gate, inspector, _nothing_to_catch_up)
        self.operations = SaleOperations(self.clock, self.gate, loader, {}, SEALER)
        self.lifecycle = SaleLifecycle(self.clock, loader, inspector)

    async def run(self) -> None:
        await self.clock.write(lambda c: create_webhook(c, "http://127.0.0.1:1/x", ("*",), None, NOW))
        await self._prepare()
        await self._stand_in_line()
        await self._sell_by_wallet()
        await self._sell_by_card()
        await self._end()
        await self._deliver()
        await link_all(self.database)

    async def _prepare(self) -> None:
        await self.gate.apply("loose", [Provision(5)])
        drops = DropOperations(self.clock, SEALER)
        drop = Drop(drop_id="winter", name="Winter", starts_at=STARTS_AT, per_buyer_limit=3)
        assert isinstance(await drops.create(drop), CreatedDrop)
        await drops.change("winter", {"per_buyer_limit": 2, "room": Room(RoomMode.FIFO, 50, 60)})
        for sale in (BY_WALLET, BY_CARD):
            created = await self.operations.create(sale)
            assert isinstance(created, Created), created
            self.clock.advance(1_000)
        await self.operations.change("drop", {"name": "The drop", "hold_budget": 9})
        for buyer_id in ("ada", "bob", "cid", "dan", "eve"):
            await self.wallet.credit(buyer_id, 50_000, "EUR", f"top-up-{buyer_id}")
            self.clock.advance(1_000)
        await self.wallet.credit("ada", 1_000, "EUR", "more")
        await self.wallet.credit("eve", 9_000, "USD", "dollars")

    async def _stand_in_line(self) -> None:
        for sale_id in ("drop", "cards"):
            for buyer_id in ("ada", "bob", "cid", "dan", "eve", "fay"):
                await self.desk.submit(sale_id, Join(buyer_id, f"ticket-{buyer_id}"))
                self.clock.advance(100)
        await self.desk.submit("drop", Leave("fay", 5, "ticket-fay"))
        self.clock.advance(STARTS_AT + 1 - self.clock.now)
        await self.lifecycle.pass_once()
        for _ in range(20):
            self.clock.advance(200)
            await self.advancer.pass_once()
        for sale_id in ("drop", "cards"):
            for arrival, buyer_id in enumerate(("ada", "bob", "cid", "dan")):
                await self.desk.submit(sale_id, Admit(buyer_id, arrival, f"ticket-{buyer_id}", PASS_MS))

    async def _sell_by_wallet(self) -> None:
        await self._buy("drop", "ada", 2)
        await self._buy("drop", "bob", 1)
        await self._buy("drop", "cid", 4, least=1)
        await self._buy("drop", "poor", 1)
        await self._buy("drop", "dan", 1, address="10.0.0.1")
        await self._buy("drop", "eve", 1, quote=await self._quote("drop", "eve"))
        await self._settle()
        ordered = await self._orders("drop")
        await self.refunder.request(Wanted(ordered["ada"], "back", restock=True))
        self.clock.advance(1_000)
        await self.refunder.request(Wanted(ordered["cid"], "some", 100))
        await self.operations.restock("drop", 3, "three-more")
        await self.operations.restock("drop", -1, "one-less")
        await self.operations.pause("drop", paused=True)
        await self.operations.pause("drop", paused=False)
        await self.compensator.compensate("drop", 5)

    async def _sell_by_card(self) -> None:
        held = [await self._hold("cards", buyer_id) for buyer_id in ("ada", "bob", "cid", "dan", "eve", "fay")]
        await self._apply("hat", Extend(held[0], 10 * MINUTE))
        await self._apply("hat", Move(Transition.CANCEL, held[4]))
        for id_, buyer_id, card in zip(held, ("ada", "bob", "cid"), ("visa", "declined", "visa"), strict=False):
            await self._pay(id_, buyer_id, card)
        await self._apply("hat", Move(Transition.CONFIRM, held[3]))
        await self._settle()
        ordered = await self._orders("cards")
        await self.refunder.request(Wanted(ordered["ada"], "back"))
        await self.refunder.request(Wanted(ordered["cid"], "some", 99))
        await self._apply("loose", Reserve(new_reservation_id("loose", "guest"), "guest", 9, 1, key="k9"))
        await self._apply("loose", Reserve(new_reservation_id("loose", "walk-in"), "walk-in", 1, 1), granted=False)

    async def _end(self) -> None:
        self.clock.advance(30 * MINUTE)
        for sku_id in ("hat", "loose"):
            await self._apply(sku_id, Reserve(new_reservation_id(sku_id, "last"), "last", 1, 1, key="last"))
        await self.operations.close("drop")
        self.clock.advance(60 * MINUTE)
        await self.lifecycle.pass_once()
        for sku_id in ("hat", "loose"):
            await self._apply(sku_id, Move(Transition.CANCEL, "rsv_none"), granted=False)
        await self.advancer.pass_once()

    async def _deliver(self) -> None:
        relay = Relay(self.clock)
        await relay.pass_once()
        await self.clock.write(self._send)

    def _send(self, connection: Connection) -> None:
        """As the deliverer does with what receivers answered."""
        now = self.clock.now
        [webhook_id] = connection.exec_driver_sql("SELECT webhook_id FROM webhooks").scalars()
        while leased := lease(connection, webhook_id, now, now + 1, limit=500):
            attempt = Attempt(now, 3, 200)
            finish(connection, [Result(d, attempt, "done", now, attempts=1) for d in leased], now)

    async def _quote(self, sale_id: str, buyer_id: str) -> str:
        quotes = Quotes(self.clock, FixedRates({("EUR", "USD"): Decimal("1.0842")}))
        quote = await quotes.make(await self._sale(sale_id), buyer_id, 1, "USD")
        assert isinstance(quote, Quote)
        assert await quotes.claim(quote, f"key-{buyer_id}") is None
        return quote.reservation_id

    async def _buy(
        self, sale_id: str, buyer_id: str, quantity: int, *, least: int = 0, address: str = "", quote: str = ""
    ) -> None:
        sale = await self._sale(sale_id)
        id_ = quote or new_reservation_id(sale.sku_id, buyer_id)
        least = least or quantity
        wanted = Reserve(id_, buyer_id, quantity, least, key=f"key-{buyer_id}", settle=True, sale_id=sale_id)
        if address:
            now = self.clock.now
            await self.clock.write(lambda c: take_units(c, sale_id, address, wanted, limit=10, now=now))
        await self._apply(sale.sku_id, wanted)
        await self.desk.submit(sale_id, Use(buyer_id, quantity))

    async def _hold(self, sale_id: str, buyer_id: str) -> str:
        sale = await self._sale(sale_id)
        id_ = new_reservation_id(sale.sku_id, buyer_id)
        await self._apply(sale.sku_id, Reserve(id_, buyer_id, 1, 1, key=f"key-{buyer_id}", sale_id=sale_id))
        await self.desk.submit(sale_id, Use(buyer_id, 1))
        return id_

    async def _pay(self, id_: str, buyer_id: str, card: str) -> None:
        sale, now = await self._sale("cards"), self.clock.now
        await self.clock.write(lambda c: note_method(c, sale, id_, buyer_id, 1, Method(card), now))
        await self._apply("hat", Move(Transition.SETTLE, id_))

    async def _sale(self, sale_id: str) -> Sale:
        sale = await self.clock.read(lambda c: find_sale(c, sale_id))
        assert sale is not None
        return sale

    async def _orders(self, sale_id: str) -> dict[str, str]:
        found, _ = await self.clock.read(lambda c: list_orders(c, limit=100, sale_id=sale_id))
        return {order.buyer_id: order.order_id for order in found}

    async def _settle(self) -> None:
        for _ in range(100):
            self.clock.advance(1_000)
            await self.settler.settle_all()
            if not await self._open_work():
                return
            await self.clock.write(lambda c: c.execute(update(settlements).values(due_at=0)))
        raise AssertionError("settlements stay open")

    async def _open_work(self) -> bool:
        is_open = settlements.c.state.in_(("waiting", "notifying"))
        return (
            await self.clock.read(lambda c: c.execute(select(settlements.c.state).where(is_open)).first()) is not None
        )

    async def _apply(self, sku_id: str, command: Command, *, granted: bool = True) -> Verdict:
        [verdict] = await self.gate.apply(sku_id, [command])
        assert verdict.outcome.is_success or not granted, verdict
        self.clock.advance(50)
        return verdict

    async def rows(self, table: Table) -> list[dict[str, object]]:
        query = select(table).order_by(*table.primary_key)
        return await self.database.read(lambda c: [dict(row) for row in c.execute(query).mappings()])


async def _nothing_to_catch_up(_sku_id: str | None) -> None:
    """The database is the gate."""
