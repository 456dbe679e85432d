"""The parts of holdfast.js that need no server: what follows what, whose clock counts, when to look again."""

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import window
from http_sales import store_of
from http_serving import Server
from playwright.sync_api import Browser, Page

from holdfast.domain.command import Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.sale import Checkout, PaymentKind, Sale
from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.http.challenge import proof_problems
from holdfast.http.limits import rate_limited
from holdfast.http.places import too_many_places
from holdfast.http.problems import (
    forbidden,
    from_engine,
    internal_error,
    refusal,
    reservation_lost,
    unauthorized,
)
from holdfast.http.room_problems import room_problems
from holdfast.http.sale_problems import (
    admission_required,
    external_payment,
    order_not_found,
    purchase_refusal,
    sale_not_found,
)

pytest_plugins = ("http_fixtures", "browser_fixtures")

SALE = Sale(
    sale_id="drop",
    sku_id="drop",
    name="Drop",
    price_amount=1,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.CART,
    payment=PaymentKind.WALLET,
)


def buyers_reasons() -> set[str]:
    """What a buyer's page can be refused for, by the code that refuses."""
    illegal = [Reservation("", "", "", 1, status, 0, 0) for status in Status if status is not Status.ACTIVE]
    no = [outcome for outcome in Outcome if not outcome.is_success and outcome is not Outcome.ILLEGAL]
    problems = [
        *room_problems(SALE), *proof_problems(), too_many_places(), rate_limited(), admission_required(),
        external_payment(), sale_not_found(), order_not_found(), reservation_lost(), unauthorized(""), forbidden(""),
        internal_error(), *map(from_engine, (Busy(), OutcomeUnknown(), Unavailable())),
        *(purchase_refusal(Verdict(outcome), SALE.state) for outcome in no),
        *(refusal(Verdict(outcome)) for outcome in no),
        *(refusal(Verdict(Outcome.ILLEGAL, one)) for one in illegal),
    ]  # fmt: skip
    return {problem.reason for problem in problems}


@pytest.fixture(scope="module")
def modules(browser: Browser, embedded: Server) -> Iterator[Page]:
    with window(browser) as page:
        page.goto(f"{embedded.url}/s/nothing")
        yield page


def run(page: Page, module: str, expression: str) -> Any:
    """An expression in which `m` is a module."""
    return page.evaluate(f"import('/assets/{module}').then((m) => ({expression}))")


def test_states_follow_each_other_and_an_end_is_an_end(modules: Page) -> None:
    way = ["proving", "waiting", "admitted", "reserving", "cart", "paying", "confirmed", "cart"]
    names = f"{way}.reduce((s, to) => [...s, m.next(s.at(-1), {{to}})], [m.START]).map((s) => s.name)"
    assert run(modules, "holdfast/states.js", names) == ["looking", *way[:-1], "confirmed"]


def test_a_late_answer_changes_nothing(modules: Page) -> None:
    in_cart = "m.next(m.next(m.START, {to: 'cart', expiresAt: 5}), {from: 'waiting', ahead: 3})"
    cart = run(modules, "holdfast/states.js", in_cart)
    assert (cart["name"], cart["expiresAt"], "ahead" in cart) == ("cart", 5, False)


def test_a_state_leaves_its_own_facts_behind_and_takes_the_sale_along(modules: Page) -> None:
    then = "m.next(m.next(m.START, {to: 'waiting', ahead: 3, sale: 1, trouble: 2}), {to: 'refused', reason: 'x'})"
    told = run(modules, "holdfast/states.js", then)
    assert told == {"name": "refused", "reason": "x", "sale": 1, "now": None, "buyer": None, "trouble": None}


@pytest.mark.parametrize(("ahead_ms", "answers"), [(0, 1), (90_000, 3), (-3_600_000, 3)])
def test_the_servers_clock_is_known_to_half_a_second(modules: Page, ahead_ms: int, answers: int) -> None:
    """Ours shows 1,000,000,000,000 ms when we ask, and 340 ms more each time; an answer takes 20 ms."""
    script = f"""(() => {{
      let ours = 1e12; const clock = new m.ServerClock(() => ours);
      for (let i = 0; i < {answers}; i++) {{
        const sent = ours; ours += 20;
        clock.note(new Date(ours - 10 + {ahead_ms}).toUTCString(), sent, ours); ours += 340;
      }}
      return clock.offset;
    }})()"""
    assert abs(run(modules, "holdfast/clock.js", script) - ahead_ms) <= 520


def test_a_clock_that_was_set_is_noticed(modules: Page) -> None:
    script = """(() => {
      let ours = 1e12; const clock = new m.ServerClock(() => ours);
      clock.note(new Date(1e12).toUTCString(), 1e12, 1e12);
      clock.note(new Date(1e12).toUTCString(), 1e12 + 7e6, 1e12 + 7e6);
      return clock.offset;
    })()"""
    assert abs(run(modules, "holdfast/clock.js", script) + 7e6) <= 520


def test_looks_are_spread_and_not_past_the_opening(modules: Page) -> None:
    def wait(state: str, left_ms: int, random: float) -> float:
        now = f"{{state: '{state}', next_poll_ms: 8000, opens_at: new Date(1e12 + {left_ms}).toISOString()}}"
        return float(run(modules, "holdfast/rest.js", f"m.untilNextLook({now}, 1e12, () => {random})"))

    assert (wait("open", -1, 0.0), wait("open", -1, 1.0)) == (8_000, 12_000)
    assert (wait("upcoming", 3_000, 0.0), wait("upcoming", 3_000, 1.0)) == (3_000, 3_500)
    assert wait("upcoming", 60_000, 0.5) == 10_000


def test_ones_own_chances_are_asked_for_when_the_line_has_moved(modules: Page) -> None:
    def is_stale(asked_ahead: int | None, ahead: int | None, at: int, now: str = "{}") -> bool:
        asked = f"{{at: 0, ahead: {'null' if asked_ahead is None else asked_ahead}}}"
        told = "null" if ahead is None else ahead
        return bool(run(modules, "holdfast/line.js", f"m.isStale({asked}, {told}, {now}, {at})"))

    assert not is_stale(100, 90, 5_000)
    assert is_stale(100, 80, 5_000)
    assert is_stale(100, 100, 20_000)
    assert not is_stale(None, None, 20_000)
    assert is_stale(None, None, 0, "{lottery: {seed: 'ab'}}")


def test_every_refusal_a_buyer_can_meet_has_words_in_every_language(modules: Page) -> None:
    for language in ("en", "de"):
        words = run(modules, f"store/words/{language}.js", "m.default.refused")
        assert buyers_reasons() - words.keys() == set()
        titles = {reason: tuple(said[:2]) for reason, said in words.items()}
        assert len(set(titles.values())) == len(titles), "two refusals say the same"


def test_the_languages_have_the_same_words(modules: Page) -> None:
    shape = "JSON.stringify(m.default, (_, v) => typeof v === 'function' ? 'f' : typeof v === 'string' ? 's' : v)"
    english, german = (run(modules, f"store/words/{language}.js", shape) for language in ("en", "de"))
    assert english == german


@pytest.mark.parametrize(
    ("ms", "shown"), [(298_000, "4:58"), (297_001, "4:58"), (0, "0:00"), (-5, "0:00"), (3_723_000, "1:02:03")]
)
def test_a_countdown_is_shown_as_clocks_do(modules: Page, ms: int, shown: str) -> None:
    assert run(modules, "store/figures.js", f"m.countdown({ms})") == shown


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
