"""HTML that cannot be broken out of: whatever is not markup already is escaped when it goes in."""

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"img", "link", "meta"})


class Html(str):
    """Markup. Only functions of this module make it."""

    __slots__ = ()


Child = str | Html | Iterable["Child"] | None


def element(name: str, /, *children: Child, **attributes: str | None) -> Html:
    """`class_` and the like lose their underscore, others become dashes. Children that are None are left out."""
    given = "".join(f' {_attribute(k)}="{escape(v)}"' for k, v in attributes.items() if v is not None)
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{together(*children)}</{name}>")


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def together(*children: Child) -> Html:
    return Html("".join(_render(child) for child in children))


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, str):
        return child if isinstance(child, Html) else escape(child, quote=False)
    return together(*child)


def prose(text: str) -> Html:
    """Paragraphs, with `code` between backticks."""
    return together(element("p", inline(part.strip())) for part in text.split("\n\n") if part.strip())


def inline(text: str) -> Html:
    parts = text.split("`")
    if len(parts) % 2 == 0:  # A backtick without its partner is a character like any other.
        return together(text)
    return together(element("code", part) if index % 2 else part for index, part in enumerate(parts))


def data_block(name: str, json: bytes) -> Html:
    """JSON in a page, for its scripts. Browsers do not run it, and nothing in it can end the element."""
    safe = json.decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return element("script", Html(safe), type="application/json", id=name)


def document(head: Iterable[Child], body: Iterable[Child], lang: str = "en") -> str:
    return "<!doctype html>\n" + element("html", element("head", head), element("body", body), lang=lang)
