"""What a sale says about its shop: where the checkout is, and how the page looks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from http_calling import problem_of, wrong_fields
from http_sales import Store, body_of, store_of
from http_serving import Server, started

pytest_plugins = ("http_fixtures",)

CHECKOUT = "https://shop.example.com/checkout"
BRAND = {"name": "Tide & Co", "logo_url": "/logo.svg", "accent": "#AA3311", "background": "#fff8ee", "message": "Hi"}


@pytest.fixture(scope="module")
def with_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"ALLOWED_ORIGINS": "https://shop.example.com"}
    with started(tmp_path_factory.mktemp("shop"), settings=settings) as server:
        yield server


def test_everyone_sees_the_checkout_the_brand_and_the_language(with_shop: Server) -> None:
    store = store_of(with_shop)
    created = store.open(checkout_url=CHECKOUT, brand=BRAND, locale="de-CH")
    wanted = (CHECKOUT, BRAND, "de-CH")
    assert (created["checkout_url"], created["brand"], created["locale"]) == wanted
    with with_shop.connect() as anyone:
        shown = body_of(anyone.get(store.path))
    assert (shown["checkout_url"], shown["brand"], shown["locale"]) == wanted
    again = store.create(checkout_url=CHECKOUT, brand=BRAND, locale="de-CH", starts_at=created["starts_at"])
    assert again.status_code == 200


def test_they_can_be_changed_and_removed(with_shop: Server) -> None:
    store = store_of(with_shop)
    store.open(checkout_url=CHECKOUT)
    changed = body_of(store.change(checkout_url=f"{CHECKOUT}/2", brand={"accent": "#000000"}, locale="fr"))
    assert changed["brand"] == dict.fromkeys(BRAND) | {"accent": "#000000"}
    assert (changed["checkout_url"], changed["locale"]) == (f"{CHECKOUT}/2", "fr")
    gone = body_of(store.change(checkout_url=None, brand=None, locale=None))
    assert (gone["checkout_url"], gone["brand"], gone["locale"]) == (None, None, None)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/checkout", "http://shop.example.com/checkout", "https://shop.example.com:8443/",
        "https://shop.example.com.evil.example/", "//evil.example", "/checkout", "https:evil.example",
        "https://shop.example.com@evil.example/", "https://shop.example.com\\@evil.example/", "javascript:alert(1)",
        "https://evil.example\\.shop.example.com/", "https://shop.example.com/\n", "",
    ],
)  # fmt: skip
def test_a_checkout_elsewhere_is_refused(with_shop: Server, url: str) -> None:
    store = store_of(with_shop)
    assert "checkout_url" in wrong_fields(store.create(checkout_url=url))
    store.open()
    assert "checkout_url" in wrong_fields(store.change(checkout_url=url))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("brand.accent", {"accent": "red"}), ("brand.accent", {"accent": "#000;x:1"}),
        ("brand.background", {"background": "#202020"}), ("brand.logo_url", {"logo_url": "javascript:alert(1)"}),
        ("brand.css", {"css": "x"}),
    ],
)  # fmt: skip
def test_a_brand_that_would_break_the_page_is_refused(quick: Store, field: str, value: dict[str, str]) -> None:
    assert field in wrong_fields(quick.create(brand=value))


def test_a_language_is_a_tag(quick: Store) -> None:
    assert "locale" in wrong_fields(quick.create(locale="German"))
    problem_of(quick.create(locale="d"), 422, "invalid_request")


@pytest.mark.slow
def test_a_sale_whose_origin_left_the_settings_can_still_be_changed(tmp_path: Path) -> None:
    with started(tmp_path, settings={"ALLOWED_ORIGINS": "https://shop.example.com"}) as server:
        store = store_of(server)
        store.open(checkout_url=CHECKOUT)
    with started(tmp_path) as server:
        later = Store(server, store.sale_id, store.sku_id)
        assert body_of(later.change(name="Other"))["checkout_url"] == CHECKOUT
