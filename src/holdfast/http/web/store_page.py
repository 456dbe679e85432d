"""The storefront as HTML, before its script runs. Every value of a sale is escaped when it goes in."""

from collections.abc import Iterable

from holdfast.domain.sale.sale import Sale, in_words
from holdfast.http.contract.endpoints.sales import NOW
from holdfast.http.web.html import Child, Html, data_block, document, element
from holdfast.http.web.pages import bundle_url

_NO_SCRIPT = "Please enable JavaScript to use this page. — Bitte aktivieren Sie JavaScript, um diese Seite zu nutzen."
_DESCRIPTION_MAX = 200


def store_page(sale: Sale | None, facts: bytes) -> str:
    """`facts` is for the script: the sale, if it is known, and the configuration."""
    head = [
        *common_head("Holdfast" if sale is None else sale.name),
        *([] if sale is None else _preview(sale)),
        element("link", rel="stylesheet", href=bundle_url("store.css")),
        element("script", type="module", src=bundle_url("store.js")),
        None if sale is None else _preload(sale),
    ]
    body = [
        element("div", _product(sale) if sale is not None else None, id="store"),
        element("noscript", element("p", _NO_SCRIPT, class_="no-script")),
        data_block("facts", facts),
    ]
    return document(head, body, _language(sale))


def not_found_page() -> str:
    head = [*common_head("Sale not found"), element("link", rel="stylesheet", href=bundle_url("store.css"))]
    text = element(
        "main",
        element("h1", "Sale not found"),
        element("p", "There is no sale at this address. Please check the link."),
        element("p", "Unter dieser Adresse gibt es keinen Verkauf. Bitte prüfen Sie den Link.", lang="de"),
        element("p", element("a", "See all sales", href="/", class_="button")),
        class_="plain-page",
    )
    return document(head, [_header(None), text])


def common_head(title: str) -> list[Html]:
    return [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="theme-color", media="(prefers-color-scheme: light)", content="#f7f7f4"),
        element("meta", name="theme-color", media="(prefers-color-scheme: dark)", content="#0d1312"),
        element("title", title),
        element("link", rel="icon", href="/assets/holdfast.svg", type="image/svg+xml"),
    ]


def _preload(sale: Sale) -> Html:
    """Fetched beside the script and not after it: on a slow network that is a round trip less."""
    href = NOW.path.replace("{sale_id}", sale.sale_id)
    return element("link", rel="preload", href=href, as_="fetch", crossorigin="anonymous")


def _preview(sale: Sale) -> Iterable[Html]:
    """How messengers show a link to the page (Open Graph)."""
    about = (sale.description or "").strip().replace("\n", " ")[:_DESCRIPTION_MAX]
    yield element("meta", property="og:type", content="website")
    yield element("meta", property="og:title", content=sale.name)
    if about:
        yield element("meta", name="description", content=about)
        yield element("meta", property="og:description", content=about)
    if sale.brand is not None and sale.brand.name is not None:
        yield element("meta", property="og:site_name", content=sale.brand.name)
    # Only a whole URL: others would be read by the messenger's own host.
    if sale.image_url is not None and not sale.image_url.startswith("/"):
        yield element("meta", property="og:image", content=sale.image_url)
        yield element("meta", name="twitter:card", content="summary_large_image")


def _product(sale: Sale) -> list[Child]:
    image = (
        None
        if sale.image_url is None
        else element("img", class_="image", src=sale.image_url, alt="", fetchpriority="low")
    )
    description = element("p", sale.description, class_="description") if sale.description else None
    about = element(
        "div",
        element("h1", sale.name),
        element("p", in_words(sale.price_amount, sale.currency), class_="price figures"),
        description,
        class_="about",
    )
    loading = element("section", element("div", "…", class_="quiet"), id="panel", class_="panel buy")
    return [
        _header(sale),
        element(
            "main",
            element("figure", image, class_="photo"),
            element("div", about, loading, class_="offer"),
            class_="product",
        ),
    ]


def _header(sale: Sale | None) -> Html:
    brand = None if sale is None else sale.brand
    logo = "/assets/holdfast.svg" if brand is None or brand.logo_url is None else brand.logo_url
    name = "Holdfast" if brand is None or brand.name is None else brand.name
    mark = element("img", src=logo, alt="", width="28", height="28")
    return element("header", element("span", mark, " ", name, class_="brand"), class_="header")


def _language(sale: Sale | None) -> str:
    return "en" if sale is None or sale.locale is None else sale.locale
