"""Which parked journal entries and messages name a buyer.

The match is exact, because an ID may be as short as `a`, which occurs in nearly every text. A journal entry is our own
JSON, and a message usually is somebody else's: it names the buyer if one of its strings, a field name, or a number in a
field such as `buyer_id`, is the ID. An unreadable message names the buyer if it contains the ID as a separate word.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Column, Connection, Table, or_, select

from holdfast.ledger.tables.stock import parked_entries
from holdfast.ledger.tables.streams import parked_messages

# The text of each table that may name a buyer.
TEXTS: dict[Table, Column[Any]] = {parked_entries: parked_entries.c.entry, parked_messages: parked_messages.c.body}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def naming(connection: Connection, table: Table, state: str, buyer_id: str) -> list[str]:
    """The IDs of the rows in a state that name a buyer."""
    text, [row_id] = TEXTS[table], table.primary_key.columns
    # As we encode it, verbatim, or as other JSON encoders may escape it.
    encoded = _encode(buyer_id)[1:-1].decode()
    forms = {encoded, encoded.replace("/", "\\/"), buyer_id, "\\u"}
    may_name = (text.contains(form, autoescape=True) for form in forms)
    rows = connection.execute(select(row_id, text).where(table.c.state == state, or_(*may_name)))
    return [found for found, said in rows if names(said, buyer_id)]


def names(text: str, buyer_id: str) -> bool:
    try:
        value = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return re.search(rf"(?<!\w){re.escape(buyer_id)}(?!\w)", text) is not None
    return buyer_id in _strings(value)


def _strings(document: Any) -> Iterator[str]:
    """Without recursion, because decoded JSON may be nested more deeply than the call stack allows."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for name, each in value.items():
                yield name
                if isinstance(each, int) and name.lower().endswith("id"):
                    yield str(each)
            left += value.values()
        elif isinstance(value, list):
            left += value
