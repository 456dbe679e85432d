"""Which parked journal entries and messages name a buyer.

Exactly: an ID may be as short as `a`, which nearly every text contains. A journal entry is JSON of ours, and a message
usually is somebody's JSON: it names the buyer if one of its strings, the name of a field, or a number in a field such
as `buyer_id`, is the ID. A message that cannot be read names the buyer where the ID stands as a word of its own.
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
    # As we write it, as it is, or as other JSON encoders may escape it.
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
    """Without recursion: what can be decoded may be nested more deeply than calls."""
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
