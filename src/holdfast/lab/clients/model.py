"""What a client has to offer, read from the endpoint table: operations, and the types they take and return.

A file is generated for each resource, which is a module of `http/contract/endpoints`. A type belongs to the first
resource that uses it. What it refers to belongs to the same one or to an earlier one, so imports never form a cycle.
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

# Where API.md has another name than the table.
_NAMES = {"put_pool": "create_pool"}
# An answer that was not changed has no body; a client without a cache never asks for it.
# The second is sent by the clients themselves.
_HEADERS_LEFT_OUT = frozenset({"If-None-Match", "Holdfast-Retry"})
_HEADER_NAMES = {
    "Idempotency-Key": "idempotency_key",
    "Holdfast-Ticket": "ticket",
    "Holdfast-Pass": "pass",
    "Holdfast-Receipt": "receipt",
    "Last-Event-ID": "last_event_id",
}
# Of a class besides its fields, and of a file at most.
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
        """Whether null and leaving it out mean the same."""
        return "default" in self.schema and self.schema["default"] is None


class Type(Struct, frozen=True):
    """An object or an enum of the contract."""

    schema_name: str
    schema: Schema
    # Where it is defined: its resource, with a number if that has too many for one file.
    file: str
    # Taken as an argument, and not only returned.
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
    # The parameter's name, by that of the header; and whether it must be given.
    headers: dict[str, tuple[str, bool]]
    body: list[Field] | None
    # By status, the names of the types it may be; a Document; or nothing.
    answers: dict[int, list[str] | Document]

    @property
    def name(self) -> str:
        return _NAMES.get(self.endpoint.operation_id, self.endpoint.operation_id)

    @property
    def has_key(self) -> bool:
        return _KEY in self.header_parameters.values() or any(field.name == _KEY for field in self.body or [])

    @property
    def header_parameters(self) -> dict[str, str]:
        """Names of parameters by headers. A key that the body can have goes there, and nowhere else."""
        in_body = {field.name for field in self.body or []}
        return {header: name for header, (name, _) in self.headers.items() if name not in in_body}

    @property
    def references(self) -> set[str]:
        """The types it takes and returns."""
        taken = {name for field in [*self.query, *(self.body or [])] for name in references(field.schema)}
        return taken | {name for one in self.answers.values() if isinstance(one, list) for name in one}

    @property
    def is_stream(self) -> bool:
        return any(isinstance(one, Document) and one.event_fields for one in self.answers.values())

    @property
    def cursor_of(self) -> list[str] | None:
        """The types of a page's answer, if there are pages."""
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
        """What a page lists, and which of its fields the next page starts after: its ID, which comes first."""
        if operation.cursor_of is None:
            return None
        page = self.types[operation.cursor_of[0]]
        [data] = [field for field in page.fields if field.name == "data"]
        item = self.types[reference(data.schema["items"]) or ""]
        return item, next(field.name for field in item.fields if field.name.endswith("_id"))


def public_name(schema_name: str) -> str:
    """What is returned is called after what it is."""
    return schema_name.removesuffix("Out") or schema_name


def reference(schema: Schema) -> str | None:
    found = schema.get("$ref")
    return None if found is None else str(found).removeprefix(_REF)


def references(schema: object) -> set[str]:
    """All types that a schema refers to."""
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
    """In the order of the table, each with the module that declares it."""
    modules = {name: one for name, one in vars(table).items() if isinstance(one, ModuleType)}
    homes = {id(found): name for name, module in modules.items() for found in vars(module).values()}
    return ((homes[id(endpoint)], endpoint) for endpoint in table.ENDPOINTS)


def _is_called_by_clients(endpoint: Endpoint) -> bool:
    """Pages are for people, and the notices of payment providers come from payment providers."""
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
        # What it refers to comes first, as Python needs it.
        _collect(components[name], components, resource, is_input, types)
        types[name] = Type(name, components[name], resource, is_input)
    for part in schema.values():
        _collect(part, components, resource, is_input, types)


def _in_files(types: dict[str, Type]) -> dict[str, Type]:
    """Files of a moderate length. A type refers to earlier ones only, so any place will do to begin a new file."""
    lines: dict[str, int] = {}
    placed = {}
    for name, one in types.items():
        lines[one.file] = lines.get(one.file, 0) + len(one.fields) + _LINES_AROUND
        number = lines[one.file] // _LINES_PER_FILE + 1
        placed[name] = structs.replace(one, file=one.file if number == 1 else f"{one.file}_{number}")
    return placed
