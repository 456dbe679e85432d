"""The schema of a log line: every field of every event. docs/log.schema.json and a table in TRACES.md show it."""

from typing import Any

from msgspec import Struct

from holdfast.lab.bench.document.markdown import table

TEXT, COUNT, NUMBER, YES_NO = "string", "integer", "number", "boolean"


class Field(Struct, frozen=True):
    kind: str
    meaning: str


# Tests look for these fields in the code; the logger adds `trace_id` and `exception`.
FIELDS = {
    # IDs of the subject.
    "action_id": Field(TEXT, "a row of the operators' record"),
    "message_id": Field(TEXT, "a mail, a notification, or a message from Kafka"),
    "parked_id": Field(TEXT, "an item that needed attention"),
    "refund_id": Field(TEXT, "a refund"),
    "request_id": Field(TEXT, "a request; its answer has it as `X-Request-Id`"),
    "reservation_id": Field(TEXT, "a reservation"),
    "sale_id": Field(TEXT, "a sale"),
    "sku_id": Field(TEXT, "a pool"),
    "subject": Field(TEXT, "the payment, order or wallet of a finding"),
    "key": Field(TEXT, "what was decided together, or a key in Redis"),
    "keys": Field(TEXT, "keys in Redis, as a pattern"),
    "receiver": Field(TEXT, "the pool that units were moved to"),
    # Requests.
    "method": Field(TEXT, "its method"),
    "path": Field(TEXT, "its path, cut after 200 characters; without the query"),
    "status": Field(COUNT, "of its answer; of the CDN's, if a cache was purged"),
    "ms": Field(NUMBER, "how long it took"),
    # Errors and their causes.
    "error": Field(TEXT, "what an engine, a library or another server said"),
    "errors": Field("array", "several of these"),
    "failures": Field(COUNT, "how many passes in a row have failed"),
    "finding": Field(TEXT, "what a check found: docs/FAULTS.md"),
    "problem": Field(TEXT, "why a sale does not sell"),
    "reason": Field(TEXT, "why"),
    "detail": Field(TEXT, "the amounts or states of a finding"),
    "verdict": Field(TEXT, "of the risk service"),
    "to_do": Field(TEXT, "what to do about it"),
    "effect": Field(TEXT, "a step of a settlement"),
    "state": Field(TEXT, "of a settlement"),
    "event_type": Field(TEXT, "what came too late for a settlement"),
    # Processes, agents and their roles.
    "agent": Field(TEXT, "a kind of background work"),
    "background": Field(YES_NO, "whether the process does background work"),
    "cell": Field(TEXT, "a cell, by its name"),
    "database": Field(TEXT, "sqlite or postgresql"),
    "dependency": Field(TEXT, "a store or a service"),
    "directory": Field(TEXT, "a directory"),
    "file": Field(TEXT, "a file"),
    "host": Field(TEXT, "of the mail server"),
    "place": Field(TEXT, "where a mark of the ledger is kept"),
    "port": Field(COUNT, "of the mail server"),
    "provider": Field(TEXT, "a payment provider"),
    "segment": Field(TEXT, "a file of the audit"),
    "store": Field(TEXT, "sqlite, postgresql or redis"),
    "url": Field(TEXT, "where the server listens"),
    "role": Field(TEXT, "of a process: core, front or worker"),
    "pid": Field(COUNT, "a process"),
    "exit_code": Field(COUNT, "with which it ended"),
    "fronts": Field(COUNT, "how many processes speak HTTP"),
    # Quantities.
    "adopted_ms": Field(COUNT, "by how much the server's time was put right"),
    "by_ms": Field(COUNT, "by how much a clock is off"),
    "cold": Field(COUNT, "files that were not in the cache"),
    "cut_off": Field(COUNT, "calls that were under way"),
    "entrants": Field(COUNT, "people in a lottery"),
    "epoch": Field(COUNT, "of a pool in Redis"),
    "files": Field(COUNT, "files that are in the cache now"),
    "given_up": Field(COUNT, "reservations that a ledger which went back lacks for good"),
    "incarnation": Field(TEXT, "of the ledger"),
    "items": Field(COUNT, "commands of a batch"),
    "joined": Field(COUNT, "people in a waiting room"),
    "messages": Field(COUNT, "messages that were not sent"),
    "reservations": Field(COUNT, "reservations that were exported"),
    "restored": Field(COUNT, "reservations that were brought back"),
    "revision": Field(TEXT, "of the tables"),
    "seconds": Field(NUMBER, "how long a pool was closed"),
    "seq": Field(COUNT, "of a journal entry"),
    "supported": Field(TEXT, "the newest revision that this version knows"),
    "unanswered": Field(COUNT, "requests whose answers were lost"),
    "unsettled": Field(COUNT, "reservations whose payments wait"),
    "within_s": Field(NUMBER, "for how long the server waits"),
    # A refused ID token: whether each of its claims was valid.
    "audience": Field(YES_NO, "it is for this server"),
    "issuer": Field("any", "it is by the issuer; the issuer's address, if it did not answer"),
    "nonce": Field(YES_NO, "it is the answer to what was asked"),
    "time": Field(YES_NO, "it is valid now"),
    "is_late": Field(YES_NO, "whether shops have waited for it"),
    # Warnings of a library.
    "kind": Field(TEXT, "its class"),
    "text": Field(TEXT, "what it says"),
    "at": Field(TEXT, "the line of code"),
}
_ALWAYS: dict[str, dict[str, Any]] = {
    "event": {
        "type": TEXT,
        "pattern": "^[a-z][a-z0-9_]*$",
        "description": "what happened; stable, to search and alert by",
    },
    "level": {"enum": ["debug", "info", "warning", "error", "critical"]},
    "timestamp": {"type": TEXT, "format": "date-time", "description": "RFC 3339, UTC"},
}
_ADDED = {
    "trace_id": {
        "type": TEXT,
        "pattern": "^[0-9a-f]{32}$",
        "description": "of the trace it belongs to, if it is traced",
    },
    "exception": {"type": TEXT, "description": "the traceback of a defect"},
}


def log_schema() -> dict[str, Any]:
    """docs/log.schema.json. The schema is closed: no other fields are logged."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Holdfast's log",
        "type": "object",
        "required": list(_ALWAYS),
        "properties": _ALWAYS | _ADDED | {name: _property(field) for name, field in FIELDS.items()},
        "additionalProperties": False,
    }


def _property(field: Field) -> dict[str, Any]:
    if field.kind == "any":
        return {"description": field.meaning}
    kind: dict[str, Any] = {"type": field.kind} if field.kind != "array" else {"type": "array", "items": {"type": TEXT}}
    return kind | {"description": field.meaning}


def log_fields_table() -> str:
    return table(["field", "type", "meaning"], [[f"`{name}`", one.kind, one.meaning] for name, one in FIELDS.items()])
