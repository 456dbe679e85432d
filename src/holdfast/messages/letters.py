"""The text of messages: a template for each kind and language, with the values of one message.

A template is a text file, `your_turn.en.txt`: the subject, an empty line, then paragraphs. `$name` is replaced by a
value. The HTML part is made from the same paragraphs, unless there is a file `your_turn.en.html`. Files in the folder
of `HOLDFAST_MESSAGE_TEMPLATES` come before ours, file by file, and may add languages.
"""

from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from msgspec import Struct

from holdfast.domain.sale.sale import Sale, digits_of

OURS = Path(__file__).parent / "templates"
DEFAULT_LOCALE = "en"
_ACCENT = "#0f766e"
# Kept in memory, including missing ones: buyers choose the language they ask for.
_FILES_MAX = 500
KINDS = ("your_turn", "order_confirmed", "payment_failed", "order_cancelled", "order_refunded", "sold_out", "next_sale")
# The placeholders that a template may use.
VALUES = ("sale", "shop", "amount", "quantity", "number", "deadline", "starts_at", "url", "unsubscribe_url")


class Letter(Struct, frozen=True):
    subject: str
    text: str
    html: str


class Letters:
    def __init__(self, folder: Path | None, public_url: str) -> None:
        self._folders = [OURS] if folder is None else [folder, OURS]
        self._public_url = public_url
        self._file = lru_cache(_FILES_MAX)(self._read)

    def write(self, kind: str, locale: str | None, sale: Sale, facts: dict[str, Any], unsubscribe_url: str) -> Letter:
        language = self.language(kind, locale or sale.locale)
        values = self._values(language, sale, facts, unsubscribe_url)
        subject, _, body = self._text(kind, language).partition("\n\n")
        text = Template(body.strip()).safe_substitute(values)
        footer = Template(self._text("footer", language).strip()).safe_substitute(values)
        return Letter(
            " ".join(Template(subject).safe_substitute(values).split()),
            f"{text}\n\n-- \n{footer}\n",
            self._html(kind, language, body, values, sale),
        )

    def language(self, kind: str, locale: str | None) -> str:
        """`de-CH`, else `de`, else English."""
        tag = (locale or DEFAULT_LOCALE).lower()
        found = [each for each in (tag, tag.partition("-")[0]) if self._file(f"{kind}.{each}.txt") is not None]
        return found[0] if found else DEFAULT_LOCALE

    def _read(self, name: str) -> str | None:
        for folder in self._folders:
            if (folder / name).is_file():
                return (folder / name).read_text(encoding="utf-8").replace("\r\n", "\n")
        return None

    def _text(self, kind: str, language: str) -> str:
        found = self._file(f"{kind}.{language}.txt") or self._file(f"{kind}.{DEFAULT_LOCALE}.txt")
        assert found is not None
        return found

    def _values(self, language: str, sale: Sale, facts: dict[str, Any], unsubscribe_url: str) -> dict[str, str]:
        shop = sale.brand.name if sale.brand is not None and sale.brand.name is not None else "Holdfast"
        amount, currency = facts.get("amount", sale.price_amount), facts.get("currency", sale.currency)
        return {
            "sale": facts.get("name", sale.name),
            "shop": shop,
            "amount": _amount(amount, currency, language),
            "quantity": str(facts.get("quantity", 1)),
            "number": str(facts.get("number", "")),
            "deadline": _time(facts.get("deadline"), language),
            "starts_at": _time(sale.starts_at, language),
            "url": f"{self._public_url}/s/{sale.sale_id}",
            "unsubscribe_url": unsubscribe_url,
        }

    def _html(self, kind: str, language: str, body: str, values: dict[str, str], sale: Sale) -> str:
        escaped = {name: escape(value) for name, value in values.items()}
        own = self._file(f"{kind}.{language}.html")
        if own is not None:
            return Template(own).safe_substitute(escaped)
        accent = sale.brand.accent if sale.brand is not None and sale.brand.accent is not None else _ACCENT
        paragraphs = [_paragraph(each, escaped, accent) for each in body.strip().split("\n\n")]
        footer = Template(escape(self._text("footer", language).strip(), quote=False)).safe_substitute(escaped)
        footer = footer.replace(
            escaped["unsubscribe_url"], f'<a href="{escaped["unsubscribe_url"]}">{escaped["unsubscribe_url"]}</a>'
        )
        return _PAGE.substitute(
            language=language, body="\n".join(paragraphs), footer=footer, shop=escaped["shop"], accent=accent
        )


_PAGE = Template(
    """<!doctype html>
<html lang="$language"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>
<body style="margin:0;background:#f7f7f4;font:16px/1.5 system-ui,sans-serif;color:#1b2422">
<div style="max-width:32em;margin:0 auto;padding:24px">
<p style="font-weight:600;border-bottom:3px solid $accent;padding-bottom:8px">$shop</p>
$body
<p style="color:#5b6664;font-size:13px;margin-top:32px;overflow-wrap:anywhere">$footer</p>
</div></body></html>
"""
)


def _paragraph(text: str, escaped: dict[str, str], accent: str) -> str:
    filled = Template(escape(text, quote=False)).safe_substitute(escaped)
    if text.strip() == "$url":
        style = f"display:inline-block;background:{accent};color:#fff;padding:10px 18px;border-radius:8px"
        return f'<p><a href="{filled.strip()}" style="{style};overflow-wrap:anywhere">{filled.strip()}</a></p>'
    return f"<p>{filled}</p>"


def _amount(amount: int, currency: str, language: str) -> str:
    digits = digits_of(currency)
    text = f"{amount / 10**digits:,.{digits}f}"
    if language.startswith("de"):
        text = text.translate(str.maketrans(",.", ".,"))
    return f"{text} {currency}"


def _time(at: int | None, language: str) -> str:
    if at is None:
        return ""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.strftime("%d.%m.%Y, %H:%M Uhr (UTC)" if language.startswith("de") else "%Y-%m-%d %H:%M UTC")
