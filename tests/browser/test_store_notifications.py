"""Notifications in the storefront: asked for by a click, shown by the service worker, ended by the buyer.

Headless Chromium has no push service, so `PushManager.subscribe` refuses there. What it would answer is put in its
place; everything before and after it is the page's own code, and the push event comes from Chromium itself.
"""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from browsing import SMALL, TIMEOUT_MS, window
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from http_calling import eventually
from http_sales import Store
from http_serving import Server, started
from playwright.sync_api import Browser, Locator, Page, Route, expect
from storefronts import LINE, look_at, pause_room, press, sale, state, visit

from forking import HOLDFAST
from holdfast.messages.push.encryption import public_bytes, to_base64url
from holdfast.messages.push.pusher import Shown

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")

pytestmark = pytest.mark.slow
OFFER, MAIL, NOTIFY = "Tell me when it is my turn", "Your email address", "Notify me in this browser"
POINT = to_base64url(public_bytes(generate_private_key(SECP256R1())))
# The answer of a push service.
SUBSCRIBED = """
const subscription = {
  toJSON: () => ({ endpoint: "https://push.example/ada", expirationTime: null, keys: KEYS }),
  unsubscribe: async () => { window.hasUnsubscribed = true; return true; },
};
PushManager.prototype.subscribe = async function (wanted) {
  const { active } = await navigator.serviceWorker.getRegistration("/assets/store/");
  window.subscribedWith = { ...wanted, state: active.state };
  PushManager.prototype.getSubscription = async () => subscription;
  return subscription;
};
""".replace("KEYS", json.dumps({"p256dh": POINT, "auth": "A" * 22}))
DENIED = "Notification.requestPermission = async () => 'denied';"
DENIED_BEFORE = "Object.defineProperty(Notification, 'permission', { get: () => 'denied' });"
UNSUPPORTED = "delete window.PushManager;"


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A demo server that sends notifications, and no mail."""
    with _demo(tmp_path_factory, {"PUSH_CONTACT": "mailto:ops@shop.example"}) as server:
        yield server


@pytest.fixture(scope="module")
def sending_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"PUSH_CONTACT": "mailto:ops@shop.example", "SMTP_URL": "smtp://127.0.0.1:1"}
    with _demo(tmp_path_factory, settings) as server:
        yield server


def _demo(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Any:
    command = (*HOLDFAST, "demo")
    directory = tmp_path_factory.mktemp("push")
    return started(directory, "--no-crowd", "--no-simulation", command=command, settings=settings)


def in_line(page: Page, server: Server) -> Locator:
    store = sale(server, room=LINE)
    pause_room(store, paused=True)
    return wait_in(page, store)


def wait_in(page: Page, store: Store) -> Locator:
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    return panel


def allow(page: Page, server: Server) -> None:
    page.context.grant_permissions(["notifications"], origin=server.url)


def test_a_buyer_in_line_is_subscribed_by_one_click_and_ends_it_by_another(browser: Browser, pushing: Server) -> None:
    with window(browser, viewport=SMALL) as page:
        allow(page, pushing)
        page.add_init_script(SUBSCRIBED)
        panel = in_line(page, pushing)
        assert page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0
        look_at(page, "notify-offer")
        press(panel, OFFER)
        expect(panel).to_contain_text("This browser will notify you when it is your turn.")
        asked = page.evaluate("subscribedWith")
        offered = page.request.get(f"{pushing.url}/store/config.json").json()["messages"]
        assert asked == {"userVisibleOnly": True, "applicationServerKey": offered["push"], "state": "activated"}
        look_at(page, "notified")
        page.set_viewport_size(SMALL)  # type: ignore[arg-type]
        with page.expect_response(lambda one: one.request.method == "DELETE" and one.url.endswith("/contact")):
            press(panel, "Stop all messages")
        expect(panel.get_by_role("button", name=NOTIFY)).to_be_visible()
        assert page.evaluate("window.hasUnsubscribed") is True


def test_a_push_event_shows_its_notification_and_a_click_opens_the_sale(browser: Browser, pushing: Server) -> None:
    with window(browser) as page:
        allow(page, pushing)
        page.add_init_script(SUBSCRIBED)
        registered = list[str]()
        cdp = page.context.new_cdp_session(page)
        cdp.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda event: registered.extend(one["registrationId"] for one in event["registrations"]),
        )
        cdp.send("ServiceWorker.enable")
        panel = in_line(page, pushing)
        press(panel, OFFER)
        expect(panel).to_contain_text("This browser will notify you")
        shown = Shown("It is your turn: Tide", "Come in, Tide is waiting for you.", "/s/other", "msg_1")
        message = {"origin": pushing.url, "registrationId": registered[-1], "data": msgspec.json.encode(shown).decode()}
        for _ in range(2):  # Delivered twice, it replaces itself.
            cdp.send("ServiceWorker.deliverPushMessage", message)
        eventually(lambda: len(notifications(page)) == 1, within_s=TIMEOUT_MS / 1000)
        [seen] = notifications(page)
        assert seen == {"title": shown.title, "body": shown.body, "tag": shown.tag, "url": shown.url}
        [worker] = page.context.service_workers
        # Only a person's click may open a window: that it would is seen by its argument.
        opened = worker.evaluate("""async () => {
          const [notification] = await registration.getNotifications();
          return new Promise((resolve) => {
            Clients.prototype.openWindow = async (url) => resolve(url);
            dispatchEvent(new NotificationEvent("notificationclick", { notification }));
          });
        }""")
        assert opened == shown.url
        assert notifications(page) == []


def notifications(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("""async () => {
      const registration = await navigator.serviceWorker.getRegistration("/assets/store/");
      const all = await registration.getNotifications();
      return all.map(({ title, body, tag, data }) => ({ title, body, tag, url: data.url }));
    }""")
    return found


def test_without_a_push_service_the_page_says_so_and_the_button_goes(browser: Browser, pushing: Server) -> None:
    """Nothing is put in place here: this Chromium's own refusal, of which it warns in the console."""
    with closing(browser.new_context(locale="en-GB")) as context:
        page = context.new_page()
        page.on("console", lambda message: print(message.text))
        allow(page, pushing)
        panel = in_line(page, pushing)
        press(panel, OFFER)
        expect(panel).to_contain_text("This browser cannot receive notifications.")
        expect(panel.get_by_role("button", name=OFFER)).to_have_count(0)
        look_at(page, "notify-unavailable")


def test_while_a_payment_takes_long_word_of_its_end_is_offered(browser: Browser, pushing: Server) -> None:
    """The payment is quick; its result is kept from the page for a while."""
    with window(browser) as page:
        allow(page, pushing)
        page.add_init_script(SUBSCRIBED)
        panel = visit(page, sale(pushing))
        page.route("**/v1/reservations/*/events", lambda route: route.fulfill(status=503))
        page.route(re.compile(r"/v1/reservations/[^/]+$"), _show_settling)
        press(panel, "Buy for €49.99")
        press(panel, "Pay €49.99")
        state(panel, "paying")
        press(panel, "Tell me when it is confirmed")
        expect(panel).to_contain_text("This browser will notify you when your order is confirmed.")
        page.unroute_all()
        state(panel, "confirmed")


def _show_settling(route: Route) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, body=answer.text().replace('"confirmed"', '"settling"'))


@pytest.mark.parametrize("missing", [UNSUPPORTED, DENIED_BEFORE], ids=["unsupported", "denied before"])
def test_where_notifications_cannot_be_shown_none_are_offered(browser: Browser, pushing: Server, missing: str) -> None:
    with window(browser) as page:
        page.add_init_script(missing)
        panel = in_line(page, pushing)
        expect(panel.get_by_role("button", name="Leave the line")).to_be_visible()
        expect(panel.get_by_role("button", name=OFFER)).to_have_count(0)


def test_mail_stays_when_notifications_are_denied_and_both_can_be_asked_for(
    browser: Browser, sending_both: Server
) -> None:
    with window(browser, viewport=SMALL) as page:
        page.add_init_script(SUBSCRIBED + DENIED)
        panel = in_line(page, sending_both)
        press(panel, OFFER)
        press(panel, NOTIFY)
        expect(panel).to_contain_text("Notifications are not allowed for this page.")
        panel.get_by_label(MAIL).fill("ada@example.com")
        press(panel, "Tell me")
        expect(panel).to_contain_text("We will write to ada@example.com when it is your turn.")
        page.evaluate("Notification.requestPermission = async () => 'granted'")
        press(panel, NOTIFY)
        expect(panel).to_contain_text("We will write to ada@example.com when it is your turn. This browser will notify")
        expect(panel.get_by_role("button", name=NOTIFY)).to_have_count(0)
        look_at(page, "told-both-ways")
