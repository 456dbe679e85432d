"""Example values, requests and answers, made from the schemas so that they cannot name a field that is not there."""

import json
import shlex
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.http.web.schema import Schema, Schemas

# One purchase, followed through the whole page.
_STORY: dict[str, Any] = {
    "sku_id": "demo",
    "sale_id": "drop",
    "per_buyer_limit": 2,
    "units": 100,
    "email": "ada@example.com",
    "owner_id": "buyer-42",
    "reservation_id": "rsv_019a8b3c4d5e…_demo",
    "idempotency_key": "order-1001",
    "ttl_seconds": 300,
    "quantity": 2,
    "total_units": 500,
    "available": 498,
    "held": 2,
    "sold": 0,
    "active_reservations": 1,
    "created_at": "2026-03-01T10:00:00.000Z",
    "at": "2026-03-01T10:00:00.000Z",
    "expires_at": "2026-03-01T10:05:00.000Z",
    "type": "reservation.created",
}
# What only the reader has, as shell variables.
VARIABLES = {"reservation_id": "$RESERVATION_ID", "order_id": "$ORDER_ID"}
_HEADERS = {"Holdfast-Ticket": "$TICKET"}
_PLAIN: dict[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": False, "object": {}}
# Longer than this and a body is set over several lines.
_LINE = 60


class Examples:
    def __init__(self, document: Schema) -> None:
        self._schemas = Schemas(document)

    def curl(self, method: str, path: str, operation: Schema) -> str:
        parts = ["curl" if method == "get" else f"curl -X {method.upper()}"]
        parts.append(f'"$HOLDFAST_URL{self._address(path, operation)}"')
        lines = [" ".join(parts)]
        if operation.get("security"):
            token = "$BUYER_TOKEN" if operation.get("x-access") == "buyer" else "$HOLDFAST_KEY"
            lines.append(f'-H "Authorization: Bearer {token}"')
        lines += [
            f'-H "{given["name"]}: {_HEADERS.get(given["name"], _STORY["idempotency_key"])}"'
            for given in operation.get("parameters", [])
            if given["in"] == "header" and (given.get("required") or "x-instead" in given)
        ]
        body = json_schema(operation.get("requestBody", {}))
        if body is not None:
            # Set in like the lines around it.
            lines.append(f"-d {shlex.quote(pretty(self._request(body)))}".replace("\n", "\n  "))
        return " \\\n  ".join(lines)

    def answer(self, operation: Schema, response: Schema) -> str | None:
        schema = json_schema(response)
        if schema is None:
            text: str | None = response.get("content", {}).get("text/plain", {}).get("example")
            return text
        value = self._value("", schema)
        told = operation.get("x-example", {})
        return pretty({name: told.get(name, old) for name, old in value.items()} if isinstance(value, dict) else value)

    def add_to(self, operation: Schema) -> None:
        body = operation.get("requestBody", {})
        schema = json_schema(body)
        if schema is not None:
            body["content"]["application/json"]["example"] = self._request(schema)
        for status, response in operation["responses"].items():
            answer = self.answer(operation, response) if status.startswith("2") and json_schema(response) else None
            if answer is not None:
                response["content"]["application/json"]["example"] = json.loads(answer)

    def _address(self, path: str, operation: Schema) -> str:
        query: dict[str, Any] = {}
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            if parameter["in"] == "path":
                value = VARIABLES.get(name) or quote(str(self._value(name, parameter["schema"])))
                path = path.replace(f"{{{name}}}", value)
            elif parameter["in"] == "query" and name in _STORY and not query:  # One shows how it is done.
                query[name] = _STORY[name]
        return path + (f"?{urlencode(query)}" if query else "")

    def _request(self, schema: Schema) -> Any:
        """What must be sent, and what the story has for the rest."""
        schema = self._schemas.resolve(schema)
        wanted = [name for name in schema.get("properties", {}) if name in schema.get("required", []) or name in _STORY]
        return {name: self._value(name, schema["properties"][name]) for name in wanted}

    def _value(self, name: str, schema: Schema) -> Any:
        inner, nullable = self._schemas.without_null(schema)
        for told in (inner.get("examples", [None])[0], _STORY.get(name), inner.get("default")):
            if told is not None:
                return told
        if nullable:
            return None
        if "enum" in inner:
            return inner["enum"][0]
        if inner.get("type") == "array":
            return [self._value("", inner["items"])]
        if "properties" in inner:
            return {key: self._value(key, part) for key, part in inner["properties"].items()}
        return _PLAIN.get(inner.get("type", ""))


def with_examples(document: Schema) -> Schema:
    """The document with an example of every JSON body, for generators of clients and of mock servers."""
    examples = Examples(document)
    for methods in document["paths"].values():
        for operation in methods.values():
            examples.add_to(operation)
    return document


def json_schema(carrier: Schema) -> Schema | None:
    """The schema of a request's or response's JSON body, if it has one."""
    found: Schema | None = carrier.get("content", {}).get("application/json", {}).get("schema")
    return found


def pretty(value: Any) -> str:
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= _LINE else json.dumps(value, ensure_ascii=False, indent=2)
