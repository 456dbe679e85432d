"""The sandbox's status page: the API, the active faults, the last payments."""

from datetime import UTC, datetime

from msgspec.structs import asdict

from holdfast.domain.sale.sale import in_words
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
:root { color-scheme: light dark; font: 1.0625rem/1.5 system-ui, sans-serif; }
body { margin: 0; background: light-dark(#eef1f6, #10141c); }
main {
  max-width: min(24rem, 100vw - 5rem); margin: 10vh auto; padding: 1.5rem;
  border-radius: 1rem; background: light-dark(#fff, #1a202c);
}
h1 { margin: 0 0 1rem; font-size: 1.5rem; line-height: 1.25; }
p { margin: 0 0 1.5rem; color: light-dark(#505a6b, #a9b4c6); }
form { display: grid; gap: 0.75rem; }
button, a {
  box-sizing: border-box; display: block; width: 100%; padding: 0.8rem;
  border: 1px solid #2f5bb7; border-radius: 0.6rem; background: none; color: light-dark(#2f5bb7, #9dbcff);
  font: inherit; font-weight: 600; text-align: center; text-decoration: none;
}
button:first-child, a { background: #2f5bb7; color: #fff; }
""")
BANK_NAME = "Test bank"


def bank_page(entry: Entry, return_to: str | None) -> str:
    """The confirmation page of the buyer's bank."""
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", BANK_NAME),
        element("link", rel="icon", href="data:,"),
        element("style", BANK_STYLE),
    ]
    return document(head, [element("main", element("p", BANK_NAME), *_bank_content(entry, return_to))])


def _bank_content(entry: Entry, return_to: str | None) -> list[Html]:
    if entry.state is PaymentState.PENDING:
        amount = in_words(entry.amount, entry.charge.currency)
        buttons = [
            element("button", label, name="answer", value=value)
            for value, label in (("approve", "Confirm"), ("refuse", "Refuse"))
        ]
        return [element("h1", f"Confirm your payment of {amount}?"), element("form", buttons, method="post")]
    refused = entry.state is PaymentState.DECLINED
    said = element("h1", "You refused the payment." if refused else "You confirmed the payment.")
    if return_to is not None and return_to.startswith(("http://", "https://")):
        return [said, element("a", "Back to the shop", href=return_to)]
    return [said, element("p", "Go back to the shop, and reload its page.")]


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
