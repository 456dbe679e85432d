"""Server-sent events, limited to the features that Holdfast uses."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct


class StreamEvent(Struct, frozen=True):
    """`id` resumes an interrupted stream: pass it as `last_event_id`."""

    id: str
    event: str
    data: dict[str, Any]


class EventReader:
    """Parses lines into events. An event ends with an empty line; a line that begins with a colon is a comment."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Iterator[StreamEvent]:
        if line:
            name, _, value = line.partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            return
        fields, self._fields = self._fields, {}
        if "data" in fields:
            data = msgspec.json.decode(fields["data"], type=dict[str, Any])
            yield StreamEvent(fields.get("id", ""), fields.get("event", "message"), data)
