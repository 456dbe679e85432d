"""The API reference: one page, made from the OpenAPI document."""

from collections.abc import Iterable

from holdfast.http.contract.problem import ProblemKind
from holdfast.http.web.html import Html, document, element, inline, prose
from holdfast.http.web.operation import Operation, OperationPages, badge, code, operations_of
from holdfast.http.web.schema import Schema

_START = """\
export HOLDFAST_URL=http://127.0.0.1:8000
export HOLDFAST_KEY=$(cat data/service_key)
export BUYER_TOKEN=$(holdfast keys token ada)   # in production your auth service signs it
export RESERVATION_ID=rsv_…   # as answered by reserve
export ORDER_ID=ord_…   # as listed by orders
export TICKET=…   # as answered by joining the queue"""


def render(openapi: Schema, kinds: Iterable[ProblemKind]) -> str:
    groups: dict[str, list[Operation]] = {}
    for operation in operations_of(openapi):
        groups.setdefault(operation.tag, []).append(operation)
    info = openapi["info"]
    pages = OperationPages(openapi)
    main = element(
        "main",
        _introduction(info),
        [_section(tag, map(pages.article, operations)) for tag, operations in groups.items()],
        _problems(kinds),
        id="main",
    )
    skip = element("a", "Skip to the content", class_="skip", href="#main")
    body = [skip, _header(info), element("div", _navigation(groups), main, class_="columns")]
    return document(_head(f"{info['title']} API"), body)


def _head(title: str) -> list[Html]:
    return [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="/assets/holdfast.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="/assets/docs.css"),
    ]


def _header(info: Schema) -> Html:
    name = element("a", element("span", class_="mark", aria_hidden="true"), info["title"], class_="name", href="#main")
    version = element("span", f"API {info['version']}", class_="version")
    return element("header", name, version, element("a", "openapi.json", class_="raw", href="/openapi.json"))


def _navigation(groups: dict[str, list[Operation]]) -> Html:
    sections = [
        element("li", element("a", tag, href=f"#{tag}", class_="section"), element("ul", map(_link, operations)))
        for tag, operations in groups.items()
    ]
    start = element("li", element("a", "start here", href="#start", class_="section"))
    problems = element("li", element("a", "problems", href="#problems", class_="section"))
    return element("nav", element("ul", start, sections, problems), aria_label="Contents")


def _link(operation: Operation) -> Html:
    text = [badge(operation.method), element("span", operation.spec.get("summary", operation.path))]
    return element("li", element("a", text, href=f"#{operation.anchor}"))


def _section(tag: str, articles: Iterable[Html]) -> Html:
    return element("section", element("h2", tag), articles, id=tag)


def _introduction(info: Schema) -> Html:
    return element(
        "section",
        element("h1", f"{info['title']} API"),
        element("div", prose(info.get("description", "")), class_="lead"),
        element("h2", "Start here"),
        prose(
            "Where access is not public, a request carries `Authorization: Bearer …` with a service key (`hf_…`) or "
            "a buyer's token. The examples on this page use these variables:"
        ),
        code(_START, "Variables of the examples"),
        id="start",
    )


def _problems(kinds: Iterable[ProblemKind]) -> Html:
    rows = [
        element(
            "tr",
            element("td", str(kind.status), class_="status"),
            element("td", element("code", kind.reason)),
            element("td", inline(kind.detail)),
            element("td", "yes" if kind.retryable else "no"),
            element("td", inline(kind.action)),
            id=kind.anchor,
        )
        for kind in kinds
    ]
    head = element(
        "tr", [element("th", name, scope="col") for name in ("Status", "Reason", "Meaning", "Retryable", "What to do")]
    )
    return element(
        "section",
        element("h2", "Problems"),
        prose(
            "A refusal is `application/problem+json` (RFC 9457). Decide by `reason`, which is stable; `title` and "
            "`detail` are for people. `retryable` says whether the very same request may succeed later. `429` and "
            "`503` say in `Retry-After` when to retry; with the same `idempotency_key` that is always safe."
        ),
        element("table", element("thead", head), element("tbody", rows)),
        id="problems",
    )
