"""The page that verifies a draw: all places and one's own, recomputed in a browser from public values."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from browsing import assert_accessible, keep
from http_calling import eventually, problem_of
from http_rooms import Person, now_of, person
from http_sales import Store, body_of, in_seconds, store_of
from http_serving import Server
from playwright.sync_api import Page, Route, expect

from holdfast.domain.room.lottery import Draw, Order, digest_of

pytest_plugins = ("http_fixtures", "browser_fixtures")

PEOPLE = 25


@pytest.fixture(scope="module")
def drawn(embedded: Server) -> Iterator[tuple[Store, list[Person]]]:
    """A lottery that people have joined and that has opened."""
    store = store_of(embedded)
    store.open(room={"mode": "lottery", "rate_per_second": 1_000}, starts_at=in_seconds(3_600), total_units=50)
    problem_of(get_entries(store), 409, "lottery_not_drawn")
    with ExitStack() as stack:
        people = [stack.enter_context(person(store, f"b{n}")) for n in range(PEOPLE)]
        for one in people:
            body_of(one.join())
        store.start_soon()
        eventually(lambda: now_of(store)["lottery"].get("seed"))
        eventually(lambda: body_of(people[-1].status())["position"])
        yield store, people


def get_entries(store: Store, query: str = "", **headers: str) -> httpx.Response:
    return httpx.get(
        f"{store.server.url}{store.path}/lottery/entries{query}", headers=headers, verify=False, trust_env=False
    )


def test_the_list_of_entries_is_public_cacheable_and_matches_the_digest(drawn: tuple[Store, list[Person]]) -> None:
    store, people = drawn
    response = get_entries(store)
    entries = response.text.splitlines()
    lottery = now_of(store)["lottery"]
    assert (len(entries), digest_of(entries)) == (lottery["entrants"], lottery["digest"])
    assert len(entries) == PEOPLE
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert get_entries(store, **{"If-None-Match": response.headers["etag"]}).status_code == 304
    problem_of(get_entries(store, "?from=7"), 422, "invalid_request")
    assert get_entries(store, "?from=10000").text == ""
    problem_of(
        httpx.get(f"{store.server.url}/v1/sales/none/lottery/entries", verify=False, trust_env=False),
        404,
        "sale_not_found",
    )
    address = f"{store.server.url}{store.path}"
    ticket = body_of(people[3].status())["ticket"]
    checked = store.server.command(
        "lottery", "verify", f"{address}/now", "--ticket", ticket, "--entries", f"{address}/lottery/entries"
    )
    assert {check["name"]: check["ok"] for check in checked["checks"]} == dict.fromkeys(
        ["seed", "commitment", "beacon", "sale", "entrants", "digest", "entry", "position"], True
    )


def test_the_page_recomputes_all_places_and_the_visitors_own(page: Page, drawn: tuple[Store, list[Person]]) -> None:
    store, people = drawn
    status = body_of(people[7].status())
    page.goto(f"{store.server.url}/lottery/{store.sale_id}")
    expect(page.locator("#progress")).to_have_text("All checks passed.")
    expect(page.locator("#checks li.match")).to_have_count(5)
    page.get_by_label("Your ticket, or your entry number").fill(status["ticket"])
    page.get_by_role("button", name="Check my place").click()
    expect(page.locator("#place")).to_have_text(f"Entry number 7 has position {status['position']}.")
    expect(page.locator("#own-checks li.match")).to_have_count(4)
    first = [cell.inner_text() for cell in page.locator("#rows tr td:nth-child(2)").all()]
    by_position = sorted(range(PEOPLE), key=lambda n: body_of(people[n].status())["position"])
    assert first == [str(arrival) for arrival in by_position[:20]]
    keep(page, "lottery")
    assert_accessible(page)
    page.goto("about:blank")
    page.goto(f"{store.server.url}/lottery/{store.sale_id}#ticket={status['ticket']}")
    expect(page.locator("#place")).to_have_text(f"Entry number 7 has position {status['position']}.")


def test_the_page_shows_which_check_failed(page: Page, drawn: tuple[Store, list[Person]]) -> None:
    store, _ = drawn

    def another_seed(route: Route) -> None:
        body = route.fetch().json()
        body["lottery"]["seed"] = "00" * 32
        route.fulfill(json=body)

    page.route("**/now", another_seed)
    page.goto(f"{store.server.url}/lottery/{store.sale_id}")
    expect(page.locator("#progress")).to_have_text("Some checks failed.")
    expect(page.locator("#checks li.mismatch")).to_contain_text("Seed hash: computed")
    for text, shown in (("nonsense", "Enter a ticket or an entry number."), ("3", "Entry number 3 has position ")):
        page.get_by_label("Your ticket, or your entry number").fill(text)
        page.get_by_role("button", name="Check my place").click()
        expect(page.locator("#place")).to_contain_text(shown)


def test_the_page_explains_a_draw_that_is_pending_or_does_not_exist(page: Page, embedded: Server) -> None:
    upcoming, fifo = store_of(embedded), store_of(embedded)
    upcoming.open(room={"mode": "lottery"}, starts_at=in_seconds(3_600))
    fifo.open(room={"mode": "fifo"})
    page.goto(f"{embedded.url}/lottery/{upcoming.sale_id}")
    expect(page.locator("#progress")).to_contain_text("when the sale opens")
    expect(page.locator("#facts")).to_contain_text(now_of(upcoming)["lottery"]["seed_hash"])
    page.goto(f"{embedded.url}/lottery/{fifo.sale_id}")
    expect(page.locator("#progress")).to_contain_text("no lottery")
    page.goto(f"{embedded.url}/lottery/none")
    expect(page.locator("#progress")).to_have_text("There is no sale with this ID.")


@pytest.mark.parametrize("entrants", [1, 2, 3, 10, 97, 1_000])
def test_the_browser_and_the_server_compute_the_same_order(page: Page, embedded: Server, entrants: int) -> None:
    draw = Draw("drop-1", bytes(range(32)), entrants, "ab" * 32, "drand 4321")
    page.goto(f"{embedded.url}/lottery/none")
    facts = {"saleId": "drop-1", "seed": draw.seed.hex(), "entrants": entrants, "digest": draw.digest}
    script = "async (draw) => (await (await import('/assets/lottery/draw.mjs')).Order.of(draw)).numbers()"
    at_places = page.evaluate(script, facts | {"beacon": draw.beacon})
    order = Order(draw)
    assert at_places == sorted(range(entrants), key=order.place_of)
