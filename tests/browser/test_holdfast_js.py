"""The parts of holdfast.js that need no server: states, clock, polling, wording."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import window
from http_calling import eventually
from http_sales import store_of
from http_serving import Server
from playwright.sync_api import Browser, Page

from holdfast.http.contract import problems
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.ledger.access.keys import Scope

pytest_plugins = ("http_fixtures", "browser_fixtures")


# Before any endpoint is reached.
ALWAYS = (
    problems.UNAUTHORIZED, problems.FORBIDDEN, problems.RATE_LIMITED, problems.BUSY, problems.NOT_READY,
    problems.OUTCOME_UNKNOWN, problems.INTERNAL_ERROR,
)  # fmt: skip


def buyers_reasons() -> set[str]:
    """Every reason with which the server can refuse a buyer's page."""
    called = [one for one in ENDPOINTS if one.access.buyers or (one.tag == "sales" and not one.access.is_required)]
    called = [endpoint for endpoint in called if endpoint.access.scope is not Scope.OPERATE]
    return {kind.reason for endpoint in called for kind in endpoint.problems} | {kind.reason for kind in ALWAYS}


@pytest.fixture(scope="module")
def modules(browser: Browser, embedded: Server) -> Iterator[Page]:
    with window(browser) as page:
        page.goto(f"{embedded.url}/s/nothing")
        yield page


def run(page: Page, module: str, expression: str) -> Any:
    """Evaluate an expression in which `m` is the module."""
    return page.evaluate(f"import('/assets/{module}').then((m) => ({expression}))")


def test_states_follow_each_other_and_final_states_are_final(modules: Page) -> None:
    path = ["proving", "waiting", "admitted", "reserving", "cart", "paying", "confirmed", "cart"]
    names = f"{path}.reduce((s, to) => [...s, m.next(s.at(-1), {{to}})], [m.INITIAL]).map((s) => s.name)"
    assert run(modules, "holdfast/states.js", names) == ["looking", *path[:-1], "confirmed"]


def test_a_late_event_changes_nothing(modules: Page) -> None:
    in_cart = "m.next(m.next(m.INITIAL, {to: 'cart', expiresAt: 5}), {from: 'waiting', ahead: 3})"
    cart = run(modules, "holdfast/states.js", in_cart)
    assert (cart["name"], cart["expiresAt"], "ahead" in cart) == ("cart", 5, False)


def test_only_the_sale_and_the_buyer_carry_over_to_the_next_state(modules: Page) -> None:
    then = "m.next(m.next(m.INITIAL, {to: 'waiting', ahead: 3, sale: 1, trouble: 2}), {to: 'refused', reason: 'x'})"
    state = run(modules, "holdfast/states.js", then)
    assert state == {"name": "refused", "reason": "x", "sale": 1, "now": None, "buyer": None, "trouble": None}


def test_a_refusal_knows_the_place_in_line_also_after_the_turn_has_come(modules: Page) -> None:
    path = ["{to: 'waiting', position: 4}", "{to: 'admitted'}", "{to: 'reserving'}", "{to: 'hoping'}"]
    script = f"""(async () => {{
      const session = new m.Session("drop", {{}});
      for (const event of [{", ".join(path)}]) session.dispatch(event);
      await session.run(async () => {{ throw new Error("sold out meanwhile"); }});
      return session.state;
    }})()"""
    refused = run(modules, "holdfast/session.js", script)
    assert (refused["name"], refused["position"]) == ("refused", 4)


@pytest.mark.parametrize(("ahead_ms", "answers"), [(0, 1), (90_000, 3), (-3_600_000, 3)])
def test_the_server_clock_is_accurate_to_half_a_second(modules: Page, ahead_ms: int, answers: int) -> None:
    """The local clock starts at 1e12 ms and advances 360 ms per request; a response takes 20 ms."""
    script = f"""(() => {{
      let local = 1e12; const clock = new m.ServerClock(() => local);
      for (let i = 0; i < {answers}; i++) {{
        const sent = local; local += 20;
        clock.observe(new Date(local - 10 + {ahead_ms}).toUTCString(), sent, local); local += 340;
      }}
      return clock.offset;
    }})()"""
    assert abs(run(modules, "holdfast/clock.js", script) - ahead_ms) <= 520


def test_a_changed_clock_is_detected(modules: Page) -> None:
    script = """(() => {
      let local = 1e12; const clock = new m.ServerClock(() => local);
      clock.observe(new Date(1e12).toUTCString(), 1e12, 1e12);
      clock.observe(new Date(1e12).toUTCString(), 1e12 + 7e6, 1e12 + 7e6);
      return clock.offset;
    })()"""
    assert abs(run(modules, "holdfast/clock.js", script) + 7e6) <= 520


def test_a_device_keeps_its_token_until_it_is_reset(modules: Page) -> None:
    script = "[m.deviceToken(), m.deviceToken(), m.resetDevice(), m.deviceToken()]"
    first, again, _, other = run(modules, "holdfast/device.js", script)
    assert first == again != other
    assert all(re.fullmatch("[0-9a-f]{32}", token) for token in (first, other))


def test_polls_are_jittered_and_do_not_miss_the_opening(modules: Page) -> None:
    def wait(state: str, left_ms: int, random: float) -> float:
        now = f"{{state: '{state}', next_poll_ms: 8000, opens_at: new Date(1e12 + {left_ms}).toISOString()}}"
        return float(run(modules, "holdfast/backoff.js", f"m.nextPollDelay({now}, 1e12, () => {random})"))

    assert (wait("open", -1, 0.0), wait("open", -1, 1.0)) == (8_000, 12_000)
    assert (wait("upcoming", 3_000, 0.0), wait("upcoming", 3_000, 1.0)) == (3_000, 3_500)
    assert wait("upcoming", 60_000, 0.5) == 10_000


def test_the_own_status_is_refetched_when_the_queue_has_moved(modules: Page) -> None:
    def is_stale(fetched_ahead: int | None, ahead: int | None, at: int, now: str = "{}") -> bool:
        fetched = f"{{at: 0, ahead: {json.dumps(fetched_ahead)}}}"
        return bool(run(modules, "holdfast/queue.js", f"m.isStale({fetched}, {json.dumps(ahead)}, {now}, {at})"))

    assert not is_stale(100, 90, 5_000)
    assert is_stale(100, 80, 5_000)
    assert is_stale(100, 100, 20_000)
    assert not is_stale(None, None, 20_000)
    assert is_stale(None, None, 0, "{lottery: {seed: 'ab'}}")


@pytest.mark.daily
def test_every_refusal_has_a_message_in_every_language(modules: Page) -> None:
    for language in ("en", "de"):
        words = run(modules, f"store/locales/{language}.js", "m.default.refused")
        assert buyers_reasons() - words.keys() == set()
        titles = {reason: tuple(said[:2]) for reason, said in words.items()}
        assert len(set(titles.values())) == len(titles), "two refusals have the same message"


def test_all_languages_have_the_same_keys(modules: Page) -> None:
    shape = "JSON.stringify(m.default, (_, v) => typeof v === 'function' ? 'f' : typeof v === 'string' ? 's' : v)"
    english, german = (run(modules, f"store/locales/{language}.js", shape) for language in ("en", "de"))
    assert english == german


@pytest.mark.parametrize(
    ("ms", "shown"), [(298_000, "4:58"), (297_001, "4:58"), (0, "0:00"), (-5, "0:00"), (3_723_000, "1:02:03")]
)
def test_a_countdown_is_formatted_like_a_clock(modules: Page, ms: int, shown: str) -> None:
    assert run(modules, "store/format.js", f"m.countdown({ms})") == shown


def test_a_price_that_the_browser_has_kept_is_checked_before_it_is_shown(modules: Page, embedded: Server) -> None:
    store = store_of(embedded)
    store.open(starts_at="2099-01-01T00:00:00Z")
    script = f"""new Promise((shown) => {{
      const stop = m.watchSale('{store.sale_id}', ({{ sale }}) => sale && (stop(), shown(sale.price.amount)));
    }})"""
    assert run(modules, "holdfast.js", script) == 4_999
    assert store.change(price={"amount": 100, "currency": "EUR"}).status_code == 200
    # Kept, it would be shown for minutes.
    eventually(lambda: run(modules, "holdfast.js", script) == 100)


def test_a_proof_is_found_in_a_worker_with_progress(modules: Page, embedded: Server) -> None:
    store = store_of(embedded)
    store.open(room={"mode": "fifo"}, proof_of_work={"cost": 60})
    script = f"""(async () => {{
      const challenge = await (await fetch('/v1/sales/{store.sale_id}/challenge')).json();
      const seen = [];
      const signal = new AbortController().signal;
      const proof = await m.solve(challenge, {{ cost: 60, signal, onProgress: (part) => seen.push(part) }});
      return [JSON.parse(atob(proof)).solution.counter, seen];
    }})()"""
    counter, seen = run(modules, "holdfast/proof.js", script)
    assert 15 <= counter < 60
    assert all(0 < part < 1 for part in seen)
