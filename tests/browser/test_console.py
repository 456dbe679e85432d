"""The console in a browser: signing in, making a sale, and everything around it."""

from collections.abc import Iterator

import pytest
from browsing import assert_accessible, keep, window
from console_page import answer, sign_in
from http_calling import eventually
from http_sales import Store, in_seconds, store_of
from http_serving import SERVICE_KEY, Server
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import create_engine, insert

from holdfast.domain.reservation import new_reservation_id
from holdfast.ledger.sale_tables import settlements
from receiver import receiving

pytest_plugins = ("http_fixtures", "browser_fixtures")

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def desk(browser: Browser, embedded: Server) -> Iterator[Page]:
    """One who is signed in, and goes from view to view."""
    with window(browser) as page:
        sign_in(page, embedded)
        yield page


def go(page: Page, view: str, heading: str) -> None:
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()


def test_who_signs_in_with_a_key_is_in_until_they_sign_out(page: Page, embedded: Server) -> None:
    page.goto(f"{embedded.url}/console")
    page.get_by_label("Service key").fill("hf_00000000000000000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")
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


def test_a_sale_is_made_in_a_form_that_says_what_is_wrong(desk: Page, embedded: Server) -> None:
    go(desk, "sales/new", "New sale")
    desk.get_by_label("Name").fill("Lamp, brass")
    desk.get_by_label("Units", exact=True).fill("a few")
    desk.get_by_label("Currency").fill("euro")
    desk.get_by_role("button", name="Create the sale").click()
    expect(desk.locator("#field-currency-wrong")).to_contain_text("three capital letters")
    expect(desk.locator("#field-total_units-wrong")).to_be_visible()
    assert_accessible(desk)
    keep(desk, "console-new-sale")
    desk.get_by_label("Units", exact=True).fill("40")
    desk.get_by_label("Currency").fill("EUR")
    desk.get_by_role("button", name="Create the sale").click()
    expect(desk.get_by_role("heading", level=1, name="Lamp, brass")).to_be_visible()
    made = embedded.client.get("/v1/sales/lamp-brass").json()
    assert (made["total_units"], made["price"], made["per_buyer_limit"]) == (40, {"amount": 4999, "currency": "EUR"}, 1)
    assert made["room"]["mode"] == "fifo"


def test_a_script_in_a_name_stays_text(desk: Page, embedded: Server) -> None:
    store = store_of(embedded)
    store.open(name=SCRIPT, starts_at=in_seconds(3600))
    go(desk, "sales", "Sales")
    expect(desk.get_by_role("link", name=SCRIPT)).to_be_visible()
    desk.get_by_role("link", name=SCRIPT).click()
    expect(desk.get_by_role("heading", level=1, name=SCRIPT)).to_be_visible()
    assert desk.locator("main img, main script").count() == 0


def park(store: Store, buyer_id: str) -> str:
    """A settlement of a reservation that nobody knows: it is parked at once."""
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


def test_what_is_parked_is_shown_tried_again_and_dropped(desk: Page, quick: Store) -> None:
    quick.open()
    reservation_id = park(quick, "ada")
    go(desk, "parked", "Parked")
    item = desk.locator("li.parked", has_text=reservation_id)
    expect(item).to_contain_text("the reservation is not known")
    keep(desk, "console-parked")
    assert_accessible(desk)
    item.get_by_role("button", name="Try again").click()
    expect(desk.get_by_role("status")).to_contain_text("tried again")
    expect(item).to_be_visible()
    item.get_by_role("button", name="Drop").click()
    answer(desk, "Leave it")
    expect(item).to_be_visible()
    item.get_by_role("button", name="Drop").click()
    answer(desk, "Drop it")
    expect(item).to_have_count(0)


def test_a_buyer_is_looked_up_with_all_that_happened(desk: Page, quick: Store) -> None:
    quick.open(total_units=1, payment="external")
    buyer_id = f"grace {quick.sale_id}"
    bought = quick.buy(buyer_id)
    with quick.buyer(buyer_id) as grace:
        assert grace.purchase().status_code == 409
    assert quick.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm").status_code == 200
    audit = {"buyer_id": buyer_id}
    eventually(lambda: quick.server.client.get("/v1/ops/audit", params=audit).json()["refusals"])
    go(desk, "buyers", "Buyers")
    desk.get_by_label("Buyer's id").fill(buyer_id)
    desk.get_by_role("button", name="Look up").click()
    story = desk.locator("ol.timeline")
    expect(story).to_contain_text("reserved: 1 unit")
    expect(story).to_contain_text("refused")
    expect(desk.locator("li.order")).to_contain_text("confirmed")
    keep(desk, "console-buyer")
    assert_accessible(desk)


def test_a_webhook_is_added_tested_and_its_log_replayed(desk: Page) -> None:
    with receiving() as receiver:
        go(desk, "webhooks", "Webhooks")
        desk.get_by_label("Address").fill("ftp://nowhere")
        desk.get_by_role("button", name="Add webhook").click()
        expect(desk.locator("#field-url-wrong")).to_be_visible()
        desk.get_by_label("Address").fill(receiver.url)
        desk.get_by_role("button", name="Add webhook").click()
        expect(desk.locator("[data-secret]")).to_contain_text("whsec_")
        desk.get_by_role("button", name="I have it").click()
        assert_accessible(desk)
        desk.get_by_role("link", name=receiver.url).click()
        desk.get_by_role("button", name="Send a test").click()
        sent = desk.get_by_role("row").filter(has_text="webhook.test")
        expect(sent).to_contain_text("done")
        keep(desk, "console-webhook")
        assert_accessible(desk)
        sent.get_by_role("button", name="Replay").click()
        receiver.wait(lambda: len(receiver.accepted) >= 2)
        desk.get_by_role("button", name="Remove").click()
        desk.get_by_role("dialog").get_by_label("Type remove to go on").fill("remove")
        answer(desk, "Remove")
        expect(desk.get_by_role("heading", level=1, name="Webhooks")).to_be_visible()


def test_a_key_is_made_shown_once_and_revoked(desk: Page) -> None:
    go(desk, "keys", "Service keys")
    desk.get_by_label("What it is for").fill("till 3")
    desk.get_by_label("inventory").check()
    desk.get_by_role("button", name="Make a key").click()
    expect(desk.locator("[data-secret]")).to_contain_text("hf_")
    keep(desk, "console-keys")
    assert_accessible(desk)
    desk.get_by_role("button", name="I have it").click()
    row = desk.locator("li.row", has_text="till 3")
    row.get_by_role("button", name="Revoke").click()
    answer(desk, "Revoke")
    expect(row).to_contain_text("Revoked")


def test_health_shows_each_dependency(desk: Page) -> None:
    go(desk, "health", "Health")
    expect(desk.locator("li", has_text="sqlite")).to_contain_text("answers in")
    expect(desk.locator("li", has_text="reconciler")).to_contain_text("runs")
    desk.get_by_role("button", name="Check everything now").click()
    expect(desk.get_by_role("status")).to_contain_text("was looked at")
    keep(desk, "console-health")
    assert_accessible(desk)


def test_a_key_that_may_only_watch_is_offered_nothing_else(page: Page, embedded: Server, quick: Store) -> None:
    quick.open()
    made = embedded.command("keys", "create", "--name", "wall screen", "--scope", "operate")
    sign_in(page, embedded, f"sale/{quick.sale_id}", made["key"])
    expect(page.locator("[data-fresh=true]")).to_be_visible()
    assert page.get_by_role("button", name="Pause selling").count() == 0
    embedded.client.delete(f"/v1/ops/keys/{made['key_id']}")
    expect(page.get_by_label("Service key")).to_be_visible()
