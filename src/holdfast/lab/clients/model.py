"""The model of a client, read from the endpoint table: operations, and the types they take and return.

One file is generated per resource, which is a module of `http/contract/endpoints`. A type belongs to the first resource
that uses it. The types it refers to belong to the same resource or an earlier one, so imports never form a cycle.
"""

import json
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct, structs

from holdfast.http.contract import endpoints as table
from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import Document, Endpoint
from holdfast.http.contract.openapi import openapi_document
from holdfast.http.contract.problem import ProblemKind

Schema = dict[str, Any]

# Where API.md uses another name than the table.
_NAMES = {"put_pool": "create_pool"}
# A 304 response has no body, and a client without a cache never needs the first. The clients send the second
# themselves.
_HEADERS_LEFT_OUT = frozenset({"If-None-Match", "Holdfast-Retry"})
_HEADER_NAMES = {
    "Idempotency-Key": "idempotency_key",
    "Holdfast-Ticket": "ticket",
    "Holdfast-Pass": "pass",
    "Holdfast-Receipt": "receipt",
    "Last-Event-ID": "last_event_id",
}
# Lines of a class besides its fields, and the maximum lines of a file.
_LINES_AROUND, _LINES_PER_FILE = 5, 300
_KEY = "idempotency_key"
_REF = "#/components/schemas/"


class Field(Struct, frozen=True):
    name: str
    schema: Schema
    is_required: bool
    description: str

    @property
    def is_null_left_out(self) -> bool:
        """Whether null and omission mean the same."""
        return "default" in self.schema and self.schema["default"] is None


class Type(Struct, frozen=True):
    """An object or an enum of the API contract."""

    schema_name: str
    schema: Schema
    # The file that defines it: its resource, with a number if the resource has too many types for one file.
    file: str
    # Whether it is an argument, and not only a result.
    is_input: bool

    @property
    def name(self) -> str:
        return public_name(self.schema_name)

    @property
    def values(self) -> list[Any] | None:
        found: list[Any] | None = self.schema.get("enum")
        return found

    @property
    def fields(self) -> list[Field]:
        return list(fields_of(self.schema))


class Operation(Struct, frozen=True):
    endpoint: Endpoint
    resource: str
    query: list[Field]
    # By header: the parameter's name, and whether it is required.
    headers: dict[str, tuple[str, bool]]
    body: list[Field] | None
    # By status: the names of the possible types; a Document; or nothing.
    answers: dict[int, list[str] | Document]

    @property
    def name(self) -> str:
        return _NAMES.get(self.endpoint.operation_id, self.endpoint.operation_id)

    @property
    def has_key(self) -> bool:
        return _KEY in self.header_parameters.values() or any(field.name == _KEY for field in self.body or [])

    @property
    def header_parameters(self) -> dict[str, str]:
        """Parameter names by header. A key that the body can carry is sent only there."""
        in_body = {field.name for field in self.body or []}
        return {header: name for header, (name, _) in self.headers.items() if name not in in_body}

    @property
    def references(self) -> set[str]:
        """The types that the operation takes and returns."""
        taken = {name for field in [*self.query, *(self.body or [])] for name in references(field.schema)}
        return taken | {name for one in self.answers.values() if isinstance(one, list) for name in one}

    @property
    def is_stream(self) -> bool:
        return any(isinstance(one, Document) and one.event_fields for one in self.answers.values())

    @property
    def cursor_of(self) -> list[str] | None:
        """The types of a page, if the result is paginated."""
        answer = self.answers.get(200)
        has_cursor = any(field.name == "starting_after" for field in self.query)
        return answer if has_cursor and isinstance(answer, list) else None


class Api(Struct, frozen=True):
    operations: list[Operation]
    types: dict[str, Type]
    problems: list[ProblemKind]

    @property
    def resources(self) -> list[str]:
        return list(dict.fromkeys(operation.resource for operation in self.operations))

    def page_item(self, operation: Operation) -> tuple[Type, str] | None:
        """The item type of a page, and the field that the next page starts after: the item's ID, its first `…_id`
        field."""
        if operation.cursor_of is None:
            return None
        page = self.types[operation.cursor_of[0]]
        [data] = [field for field in page.fields if field.name == "data"]
        item = self.types[reference(data.schema["items"]) or ""]
        return item, next(field.name for field in item.fields if field.name.endswith("_id"))


def public_name(schema_name: str) -> str:
    """Result types lose the suffix `Out`."""
    return schema_name.removesuffix("Out") or schema_name


def reference(schema: Schema) -> str | None:
    found = schema.get("$ref")
    return None if found is None else str(found).removeprefix(_REF)


def references(schema: object) -> set[str]:
    """All types that a schema references."""
    if isinstance(schema, list):
        return {name for part in schema for name in references(part)}
    if not isinstance(schema, dict):
        return set()
    own = reference(schema)
    return ({own} if own else set()) | {name for part in schema.values() for name in references(part)}


def fields_of(schema: Schema) -> Iterator[Field]:
    required = schema.get("required", [])
    for name, part in schema.get("properties", {}).items():
        inner: Schema = next((one for one in part.get("anyOf", []) if "description" in one), {})
        yield Field(name, part, name in required, part.get("description") or inner.get("description", ""))


def read_table() -> Api:
    shown = [(resource, endpoint) for resource, endpoint in _declared() if _is_called_by_clients(endpoint)]
    document = json.loads(msgspec.json.encode(openapi_document(endpoint for _, endpoint in shown)))
    components: dict[str, Schema] = document["components"]["schemas"]
    operations = [_operation(resource, endpoint, document) for resource, endpoint in shown]
    types: dict[str, Type] = {}
    for operation in operations:
        for schema, is_input in _used(operation):
            _collect(schema, components, operation.resource, is_input, types)
    types = _in_files(types)
    names = [one.name for one in types.values()]
    assert len(set(names)) == len(names), f"two types of the same name: {sorted(names)}"
    return Api(operations, types, list(problems.CATALOGUE.values()))


def _declared() -> Iterator[tuple[str, Endpoint]]:
    """All endpoints in the order of the table, each with the name of its module."""
    modules = {name: one for name, one in vars(table).items() if isinstance(one, ModuleType)}
    homes = {id(found): name for name, module in modules.items() for found in vars(module).values()}
    return ((homes[id(endpoint)], endpoint) for endpoint in table.ENDPOINTS)


def _is_called_by_clients(endpoint: Endpoint) -> bool:
    """Excludes pages, which are for people, and webhooks, which payment providers call."""
    return endpoint.is_documented and not endpoint.is_demo and problems.SIGNATURE_REFUSED not in endpoint.problems


def _operation(resource: str, endpoint: Endpoint, document: Schema) -> Operation:
    spec = document["paths"][endpoint.template][endpoint.method.lower()]
    given = [one for one in spec.get("parameters", []) if one["in"] == "query"]
    body = None if endpoint.body is None else document["components"]["schemas"][endpoint.body.__name__]
    return Operation(
        endpoint,
        resource,
        [Field(one["name"], one["schema"], one["required"], one.get("description", "")) for one in given],
        {
            header.name: (_HEADER_NAMES[header.name], header.missing is not None)
            for header in endpoint.headers
            if header.name not in _HEADERS_LEFT_OUT
        },
        None if body is None else list(fields_of(body)),
        {status: _answer(answer.body) for status, answer in endpoint.answers.items() if status < 300},
    )


def _answer(body: Any) -> list[str] | Document:
    if body is None or isinstance(body, Document):
        return body or []
    return [kind.__name__ for kind in (body if isinstance(body, tuple) else (body,))]


def _used(operation: Operation) -> Iterator[tuple[Schema, bool]]:
    for field in [*operation.query, *(operation.body or [])]:
        yield field.schema, True
    for answer in operation.answers.values():
        if not isinstance(answer, Document):
            yield from (({"$ref": _REF + name}, False) for name in answer)


def _collect(
    schema: Any, components: Mapping[str, Schema], resource: str, is_input: bool, types: dict[str, Type]
) -> None:
    if isinstance(schema, list):
        for part in schema:
            _collect(part, components, resource, is_input, types)
    if not isinstance(schema, dict):
        return
    name = reference(schema)
    if name is not None and name not in types:
        # Referenced types come first, as Python requires.
        _collect(components[name], components, resource, is_input, types)
        types[name] = Type(name, components[name], resource, is_input)
    for part in schema.values():
        _collect(part, components, resource, is_input, types)


def _in_files(types: dict[str, Type]) -> dict[str, Type]:
    """Splits types into files of moderate length. Types refer only to earlier ones, so a file may start at any type."""
    lines: dict[str, int] = {}
    placed = {}
    for name, one in types.items():
        lines[one.file] = lines.get(one.file, 0) + len(one.fields) + _LINES_AROUND
        number = lines[one.file] // _LINES_PER_FILE + 1
        placed[name] = structs.replace(one, file=one.file if number == 1 else f"{one.file}_{number}")
    return placed
