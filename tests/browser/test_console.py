"""The console in a browser: sign-in, sales, attention list, buyers, webhooks, keys, health."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from browsing import assert_accessible, keep, window
from console_page import answer, sign_in
from http_calling import eventually
from http_sales import Store, in_seconds, store_of
from http_serving import SERVICE_KEY, Server, started
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, Route, expect
from sqlalchemy import create_engine, insert

from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.http.contract.schemas.approvals import ApprovalList, ApprovalOut
from holdfast.ledger.access.approvals import ApprovalState
from holdfast.ledger.tables.money import settlements
from receiver import receiving

pytest_plugins = ("http_fixtures", "browser_fixtures")

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def console(browser: Browser, embedded: Server) -> Iterator[Page]:
    """A signed-in window that the tests of this module share."""
    with window(browser) as page:
        sign_in(page, embedded)
        yield page


def go(page: Page, view: str, heading: str) -> None:
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()


def test_a_session_lasts_until_sign_out(page: Page, embedded: Server) -> None:
    page.goto(f"{embedded.url}/console")
    page.get_by_label("Service key").fill("hf_00000000000000000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown or has been revoked")
    assert_accessible(page)
    keep(page, "console-sign-in")
    page.get_by_label("Service key").fill(SERVICE_KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Sales", level=1)).to_be_visible()
    assert page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    page.reload()
    expect(page.get_by_role("heading", name="Sales", level=1)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Service key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Service key")).to_be_visible()


def test_the_form_for_a_new_sale_shows_errors_at_their_fields(console: Page, embedded: Server) -> None:
    go(console, "sales/new", "New sale")
    # Neither the sandbox nor Stripe is set up here.
    expect(console.get_by_label("Payment").locator("option")).to_have_text(["Wallet", "At your own checkout"])
    console.get_by_label("Name").fill("Lamp, brass")
    console.get_by_label("Units", exact=True).fill("a few")
    console.get_by_label("Currency").fill("euro")
    console.get_by_role("button", name="Create sale").click()
    expect(console.locator("#field-currency-error")).to_contain_text("three capital letters")
    expect(console.locator("#field-total_units-error")).to_be_visible()
    assert_accessible(console)
    keep(console, "console-new-sale")
    console.get_by_label("Units", exact=True).fill("40")
    console.get_by_label("Currency").fill("EUR")
    console.get_by_label("Payment").select_option("external")
    console.get_by_label("Checkout URL").fill("https://elsewhere.example.com/pay")
    console.get_by_role("button", name="Create sale").click()
    expect(console.locator("#field-checkout_url-error")).to_contain_text("HOLDFAST_ALLOWED_ORIGINS")
    console.get_by_label("Checkout URL").fill("")
    console.get_by_role("button", name="Create sale").click()
    expect(console.get_by_role("heading", level=1, name="Lamp, brass")).to_be_visible()
    made = embedded.client.get("/v1/sales/lamp-brass").json()
    assert (made["total_units"], made["price"], made["per_buyer_limit"]) == (40, {"amount": 4999, "currency": "EUR"}, 1)
    assert (made["room"]["mode"], made["payment"], made["checkout_url"]) == ("fifo", "external", None)


def test_a_script_in_a_name_stays_text(console: Page, embedded: Server) -> None:
    store = store_of(embedded)
    store.open(name=SCRIPT, starts_at=in_seconds(3600))
    go(console, "sales", "Sales")
    expect(console.get_by_role("link", name=SCRIPT)).to_be_visible()
    console.get_by_role("link", name=SCRIPT).click()
    expect(console.get_by_role("heading", level=1, name=SCRIPT)).to_be_visible()
    assert console.locator("main img, main script").count() == 0


def park(store: Store, buyer_id: str) -> str:
    """A settlement of an unknown reservation, which is parked at once."""
    reservation_id = new_reservation_id(store.sku_id, buyer_id)
    row = {
        "reservation_id": reservation_id, "sale_id": store.sale_id, "sku_id": store.sku_id, "buyer_id": buyer_id,
        "quantity": 1, "state": "waiting", "due_at": 0, "created_at": 0,
    }  # fmt: skip
    engine = create_engine(f"sqlite:///{store.server.directory / 'data' / 'holdfast.db'}", connect_args={"timeout": 30})
    with engine.begin() as connection:
        connection.execute(insert(settlements), [row])
    engine.dispose()
    return reservation_id


def test_a_parked_item_is_shown_retried_and_dropped(console: Page, quick: Store) -> None:
    quick.open()
    reservation_id = park(quick, "ada")
    go(console, "attention", "Needs attention")
    item = console.locator("li.attention", has_text=reservation_id)
    expect(item).to_contain_text("the reservation is unknown")
    keep(console, "console-attention")
    assert_accessible(console)
    item.get_by_role("button", name="Retry").click()
    expect(console.get_by_role("status")).to_contain_text("Queued for retry")
    expect(item).to_be_visible()
    item.get_by_role("button", name="Drop").click()
    answer(console, "Cancel")
    expect(item).to_be_visible()
    item.get_by_role("button", name="Drop").click()
    answer(console, "Drop")
    expect(item).to_have_count(0)


def test_a_buyers_whole_timeline_can_be_looked_up(console: Page, quick: Store) -> None:
    quick.open(total_units=1, payment="external")
    buyer_id = f"grace {quick.sale_id}"
    bought = quick.buy(buyer_id)
    with quick.buyer(buyer_id) as grace:
        assert grace.purchase().status_code == 409
    assert quick.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm").status_code == 200
    audit = {"buyer_id": buyer_id}
    eventually(lambda: quick.server.client.get("/v1/ops/audit", params=audit).json()["refusals"])
    go(console, "buyers", "Buyers")
    console.get_by_label("Buyer ID").fill(buyer_id)
    console.get_by_role("button", name="Look up").click()
    timeline = console.locator("ol.timeline")
    expect(timeline).to_contain_text("reserved: 1 unit")
    expect(timeline).to_contain_text("refused")
    expect(console.locator("li.order")).to_contain_text("confirmed")
    keep(console, "console-buyer")
    assert_accessible(console)


def test_a_buyers_tokens_are_refused_and_accepted_again(console: Page, quick: Store) -> None:
    quick.open()
    buyer_id = f"mallory/{quick.sale_id}"
    go(console, f"buyers/{quote(buyer_id, safe='')}", f"Buyer {buyer_id}")
    with quick.buyer(buyer_id) as mallory:
        assert mallory.client.get("/v1/reservations").status_code == 200
        console.get_by_role("button", name="Refuse tokens").click()
        answer(console, "Refuse tokens")
        expect(console.get_by_text("Tokens refused until")).to_be_visible()
        assert mallory.client.get("/v1/reservations").status_code == 401
        assert_accessible(console)
        console.get_by_role("button", name="Accept tokens again").click()
        expect(console.get_by_text("Tokens refused until")).to_have_count(0)
        assert mallory.client.get("/v1/reservations").status_code == 200


def test_a_webhook_is_added_tested_and_its_log_replayed(browser: Browser, tmp_path: Path) -> None:
    with (
        receiving() as receiver,
        started(tmp_path, settings={"WEBHOOK_PRIVATE": "1"}) as server,
        window(browser) as console,
    ):
        sign_in(console, server)
        go(console, "webhooks", "Webhooks")
        console.get_by_label("URL").fill("ftp://nowhere")
        console.get_by_role("button", name="Add webhook").click()
        expect(console.locator("#field-url-error")).to_be_visible()
        console.get_by_label("URL").fill(receiver.url)
        console.get_by_role("button", name="Add webhook").click()
        expect(console.locator("[data-secret]")).to_contain_text("whsec_")
        console.get_by_role("button", name="Done").click()
        assert_accessible(console)
        console.get_by_role("link", name=receiver.url).click()
        console.get_by_role("button", name="Send test event").click()
        sent = console.get_by_role("row").filter(has_text="webhook.test")
        expect(sent).to_contain_text("Delivered")
        keep(console, "console-webhook")
        assert_accessible(console)
        sent.get_by_role("button", name="Replay").click()
        receiver.wait(lambda: len(receiver.accepted) >= 2)
        console.get_by_role("button", name="Delete").click()
        console.get_by_role("dialog").get_by_label("Type delete to confirm").fill("delete")
        answer(console, "Delete")
        expect(console.get_by_role("heading", level=1, name="Webhooks")).to_be_visible()


def test_a_key_is_created_shown_once_and_revoked(console: Page) -> None:
    go(console, "keys", "Service keys")
    console.get_by_label("Name").fill("till 3")
    console.get_by_label("inventory").check()
    console.get_by_role("button", name="Create key").click()
    expect(console.locator("[data-secret]")).to_contain_text("hf_")
    keep(console, "console-keys")
    assert_accessible(console)
    console.get_by_role("button", name="Done").click()
    row = console.locator("li.row", has_text="till 3")
    row.get_by_role("button", name="Revoke").click()
    answer(console, "Revoke")
    expect(row).to_contain_text("Revoked")


def test_the_first_of_two_approvals_is_not_taken_for_the_outcome(console: Page) -> None:
    """tests/http/test_approvals.py has the server's part; here it only says what it says there."""
    time = "2030-01-01T00:00:00Z"
    asked = ApprovalOut(
        "apr_1", "close_sale", "sale:lamp", None, None, "the admin key", time, time, ApprovalState.PENDING,
        None, None, None, None,
    )  # fmt: skip
    once = replace(asked, decided_by="Ada", decided_at=time)
    states = [asked, once, replace(once, state=ApprovalState.APPROVED, decided_by="Ada and Bob", status=200)]

    def respond(route: Route) -> None:
        if route.request.method == "POST":
            states.pop(0)
        body = states[0] if route.request.method == "POST" else ApprovalList(states[:1] if len(states) > 1 else [])
        route.fulfill(body=msgspec.json.encode(body), content_type="application/json")

    console.route("**/v1/ops/approvals**", respond)
    go(console, "team", "Team")
    for when, card, told in (
        (
            "Another operator, if there is one, has to approve it, too",
            "the admin key",
            "Another operator has to approve it, too.",
        ),
        ("at once", "Approved by Ada.", "Approved and carried out."),
    ):
        expect(console.locator("li", has_text="close sale")).to_contain_text(card)
        console.get_by_role("button", name="Approve… close sale").click()
        expect(console.get_by_role("dialog")).to_contain_text(when)
        assert_accessible(console)
        keep(console, f"console-approve-{len(states)}")
        answer(console, "Approve")
        expect(console.get_by_role("status")).to_contain_text(told)
    console.unroute_all()


def test_an_operator_is_invited_joins_and_is_disabled(page: Page, browser: Browser, tmp_path: Path) -> None:
    """At a server of its own: where there are operators, the console asks for their password first."""
    with started(tmp_path) as server:
        sign_in(page, server)
        invite_join_and_disable(page, browser)


def invite_join_and_disable(console: Page, browser: Browser) -> None:
    go(console, "team", "Team")
    expect(console.get_by_text("You are using the admin key")).to_be_visible()
    console.get_by_label("Email address").fill("kim@shop.example")
    console.get_by_label("Name").fill("Kim")
    console.get_by_label("Role").select_option("finance")
    console.get_by_role("button", name="Invite").click()
    link = console.locator("[data-secret]").inner_text()
    assert_accessible(console)
    keep(console, "console-team")
    console.get_by_role("button", name="Done").click()
    with window(browser) as invited:
        invited.goto(link)
        expect(invited.get_by_role("heading", name="Welcome")).to_be_visible()
        assert_accessible(invited)
        keep(invited, "console-join")
        invited.get_by_label("New password").fill("correct horse battery")
        invited.get_by_label("Repeat it").fill("correct horse battery")
        invited.get_by_role("button", name="Join").click()
        expect(invited.get_by_role("heading", level=1, name="Sales")).to_be_visible()
        go(invited, "team", "Team")
        expect(invited.get_by_text("You are Kim, finance.")).to_be_visible()
        row = console.locator("li.row", has_text="kim@shop.example")
        expect(row).to_contain_text("joined")
        row.get_by_role("button", name="Disable").click()
        answer(console, "Disable")
        expect(row).to_contain_text("Disabled")
        expect(invited.get_by_label("Password")).to_be_visible()
    console.get_by_role("link", name="What was done").click()
    expect(console.get_by_role("heading", name="disable operator")).to_be_visible()
    assert_accessible(console)
    keep(console, "console-actions")


def test_health_shows_each_dependency(console: Page) -> None:
    go(console, "health", "Health")
    expect(console.locator("li", has_text="sqlite")).to_contain_text("takes writes")
    expect(console.locator("li", has_text="reconciler")).to_contain_text("runs")
    console.get_by_role("button", name="Check now").click()
    expect(console.get_by_role("status")).to_contain_text("Checked all pools and payments")
    expect(console.locator(".tile").first).to_contain_text("Healthy")
    keep(console, "console-health")
    assert_accessible(console)


def test_a_key_with_only_operate_cannot_change_a_sale(page: Page, embedded: Server, quick: Store) -> None:
    quick.open()
    made = embedded.client.post("/v1/ops/keys", json={"name": "wall screen", "scopes": ["operate"]}).json()
    sign_in(page, embedded, f"sale/{quick.sale_id}", made["key"])
    expect(page.locator("[data-fresh=true]")).to_be_visible()
    assert page.get_by_role("button", name="Pause sale").count() == 0
    embedded.client.delete(f"/v1/ops/keys/{made['key_id']}")
    expect(page.get_by_label("Service key")).to_be_visible()
