"""The sandbox's status page: the API, the faults in force, the last payments."""

from datetime import UTC, datetime

from msgspec.structs import asdict

from holdfast.http.web.html import Html, document, element, prose
from holdfast.lab.sandbox.entry import Entry
from holdfast.lab.sandbox.faults import FaultPlan, Faults
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.payments.port import PaymentState

LAST = 50
ABOUT = """A payment service for demos, rehearsals and tests of Holdfast. No money moves here.

`POST /authorise`, `POST /capture`, `POST /void`, `POST /refund`, `GET /payments?key=`, `GET /books`,
`GET /charges?since=`, `PUT /faults`"""
COLUMNS = ("at", "key", "state", "amount", "captured", "captures", "refunded", "method", "reference")


def page(ledger: SandboxLedger, plan: FaultPlan) -> str:
    head = [element("meta", charset="utf-8"), element("title", "Holdfast payment sandbox")]
    return document(head, [element("h1", "Payment sandbox"), prose(ABOUT), _faults(plan), _payments(ledger)])


BANK_STYLE = Html("""
:root { color-scheme: light dark; font: 1.05rem/1.5 system-ui, sans-serif; }
body { max-width: 26rem; margin: 12vh auto; padding: 0 1.25rem; }
button, a { font: inherit; padding: 0.7rem 1.4rem; margin: 0 0.75rem 0.75rem 0; }
""")


def bank_page(entry: Entry, return_to: str | None) -> str:
    """What the buyer's bank shows."""
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", "Your bank"),
        element("style", BANK_STYLE),
    ]
    amount = f"{entry.amount / 100:.2f} {entry.charge.currency}"
    if entry.state is not PaymentState.PENDING:
        text = "You refused the payment." if entry.state is PaymentState.DECLINED else "You confirmed the payment."
        back: Html | str = "Go back to the shop, and reload its page."
        if return_to is not None and return_to.startswith(("http://", "https://")):
            back = element("a", "Back to the shop", href=return_to)
        return document(head, [element("h1", text), element("p", back)])
    buttons = [
        element("button", label, name="answer", value=value)
        for value, label in (("approve", "Confirm"), ("refuse", "Refuse"))
    ]
    asks = element("h1", f"Confirm your payment of {amount}?")
    return document(head, [asks, element("form", buttons, method="post")])


def _faults(plan: FaultPlan) -> Html:
    usual = asdict(Faults())
    changed = [f"{name} {value}" for name, value in asdict(plan.faults).items() if value != usual[name]]
    state = "down" if plan.is_down() else "up"
    return element("p", f"It is {state}. Faults in force: {', '.join(changed) or 'none'}.")


def _payments(ledger: SandboxLedger) -> Html:
    header = element("tr", (element("th", name) for name in COLUMNS))
    rows = (element("tr", (element("td", text) for text in _cells(entry))) for entry in ledger.last(LAST))
    return element("div", element("h2", f"Last of {len(ledger):,} payments"), element("table", header, rows))


def _cells(entry: Entry) -> list[str]:
    at = datetime.fromtimestamp(entry.history[-1].at_ms / 1000, UTC).isoformat(" ", "milliseconds")
    money = [f"{entry.amount} {entry.charge.currency}", entry.captured, entry.captures, entry.refunded]
    return [at, entry.key, entry.state, *map(str, money), entry.charge.method or "", entry.reference]
