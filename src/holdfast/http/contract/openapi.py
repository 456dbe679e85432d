"""The OpenAPI document, derived from the endpoint table."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.http.contract import problems
from holdfast.http.contract.cell_problems import CELL_MOVING, CELL_UNAVAILABLE
from holdfast.http.contract.endpoint import Answers, Document, Endpoint, Header
from holdfast.http.contract.openapi_webhooks import WebhookEvent, webhooks
from holdfast.http.contract.path_parameters import PATH_PARAMETERS
from holdfast.http.contract.problem import MEDIA_TYPE, RETRY_LATER, ProblemKind
from holdfast.http.contract.schemas.operate import DisabledOut
from holdfast.http.contract.schemas.problem import ProblemOut
from holdfast.http.contract.schemas.values import END, custom_schema

Schema = dict[str, Any]

_DESCRIPTION = """Time-bounded reservations on a limited stock, decided in batches and durable before they are granted.

Every refusal is `application/problem+json` with a stable `reason` and `retryable`. `429` and `503` carry `Retry-After`.
"""
_REF = "#/components/schemas/{name}"
_TAGS = {
    "inventory": "Pools, and reservations from them, by services.",
    "sales": "Sales and their waiting rooms.",
    "drops": "Several sales with one waiting room and a limit per buyer across them.",
    "reservations": "Look up, confirm, extend and cancel reservations.",
    "orders": "Orders, their fulfilment and refunds.",
    "money": "Wallets, refunds, and notices from payment providers.",
    "operate": "Health, metrics, items that need attention, keys.",
    "team": "Operators, their sessions, and the audit log of their actions.",
    "webhooks": "Events for your own servers.",
    "messages": "Messages to buyers: contacts, and the log.",
}
# Answered by any endpoint, before its handler is reached.
_ALWAYS = (
    problems.NOT_FOUND, problems.HEADERS_TOO_LARGE, problems.BUSY, problems.NOT_READY, problems.OUTCOME_UNKNOWN,
    CELL_UNAVAILABLE, CELL_MOVING,
)  # fmt: skip
_READ_BODY = (problems.INVALID_JSON, problems.BODY_TOO_LARGE, problems.REQUEST_TIMEOUT, problems.INVALID_REQUEST)
_IDENTIFIED = (problems.UNAUTHORIZED, problems.FORBIDDEN)


def openapi_document(endpoints: Iterable[Endpoint]) -> Schema:
    shown = [endpoint for endpoint in endpoints if endpoint.is_documented]
    paths: dict[str, Schema] = {}
    refused: dict[str, Schema] = {}
    for endpoint in shown:
        paths.setdefault(endpoint.template, {})[endpoint.method.lower()] = _operation(endpoint, refused)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__, "description": _DESCRIPTION},
        "servers": [
            {"url": "/", "description": "This server"},
            {"url": "http://127.0.0.1:8000", "description": "The demo on your machine: `make run`"},
        ],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "webhooks": webhooks(),
        "components": {"schemas": {**_components(shown), **refused}, "securitySchemes": {"bearer": _bearer()}},
    }
    plain: Schema = _plain(document)
    return plain


def _bearer() -> Schema:
    return {"type": "http", "scheme": "bearer", "description": "A service key (`hf_…`) or a buyer's JWT."}


def operation_name(endpoint: Endpoint) -> str:
    """`sales.create`: the tag, and what is done with it. Generated clients make `sales.create(…)` of it."""
    subject = (endpoint.tag, endpoint.tag.removesuffix("s"))
    words = [word for word in endpoint.operation_id.split("_") if word not in subject]
    return f"{endpoint.tag}.{'_'.join(words)}"


def _operation(endpoint: Endpoint, refused: dict[str, Schema]) -> Schema:
    operation: Schema = {"tags": [endpoint.tag], "summary": endpoint.summary, "operationId": operation_name(endpoint)}
    if endpoint.description:
        operation["description"] = endpoint.description
    parameters = [*_path(endpoint), *_query(endpoint), *map(_header, endpoint.headers)]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = {"required": endpoint.is_body_required, "content": _json(endpoint.body)}
    operation["responses"] = {
        **{str(status): _answer(answer) for status, answer in answers_of(endpoint).items()},
        **_refusals(endpoint, refused),
    }
    operation["security"] = [{"bearer": []}] if endpoint.access.is_required else []
    operation["x-access"] = endpoint.access.name
    operation["x-if-unknown"] = str(endpoint.if_unknown)
    if endpoint.example:
        operation["x-example"] = dict(endpoint.example)
    return operation


def _path(endpoint: Endpoint) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _schema(PATH_PARAMETERS[name])}
        for name in endpoint.path_parameters
    ]


def _query(endpoint: Endpoint) -> list[Schema]:
    if endpoint.query is None:
        return []
    schema = _schema_of_struct(endpoint.query)
    required = schema.get("required", [])
    return [_query_parameter(name, part, name in required) for name, part in schema["properties"].items()]


def _query_parameter(name: str, schema: Schema, required: bool) -> Schema:
    """URL parameters cannot be null: a parameter is present or not."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    inner = dict(options[0] if options else schema)
    if schema.get("default") is not None:
        inner["default"] = schema["default"]
    described = {"description": inner.pop("description")} if "description" in inner else {}
    return {"name": name, "in": "query", "required": required, "schema": inner, **described}


def _header(header: Header) -> Schema:
    schema = {"type": "string"} if header.type is str else _schema(header.type)
    schema.pop("description", None)
    required = header.missing is not None and header.instead is None
    return {
        "name": header.name,
        "in": "header",
        "required": required,
        "description": header.description,
        "schema": schema,
        **({} if header.instead is None else {"x-instead": header.instead}),
    }


def answers_of(endpoint: Endpoint) -> Mapping[int, Answers]:
    """Its own response, and the one while it is turned off."""
    if not endpoint.is_optional:
        return endpoint.answers
    own = endpoint.answers[200]
    kinds = own.body if isinstance(own.body, tuple) else (own.body,)
    return {**endpoint.answers, 200: Answers(own.description, (*kinds, DisabledOut), own.headers)}


def _answer(answer: Answers) -> Schema:
    told: Schema = {"description": answer.description}
    if isinstance(answer.body, Document):
        content: Schema = {"schema": _document(answer.body)}
        if answer.body.example:
            content["example"] = answer.body.example
        told["content"] = {answer.body.media_type.partition(";")[0]: content}
    elif answer.body is not None:
        told["content"] = _json(answer.body)
    if answer.headers:
        told["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
        }
    return told


def _document(document: Document) -> Schema:
    if not document.event_fields:
        return {"type": "string"}
    fields = {name: {"type": "string"} for name in document.event_fields}
    return {"type": "object", "required": [*fields], "properties": fields}


def _refusals(endpoint: Endpoint, refused: dict[str, Schema]) -> Schema:
    """Problems by status, each with an example; the reasons are an enum, so that a generated client knows them.

    Operations that refuse for the same reasons share a schema, which is added to `refused`.
    """
    by_status = sorted(problems_of(endpoint), key=lambda kind: kind.status)
    told = {}
    for status, group in groupby(by_status, key=lambda kind: kind.status):
        kinds = list(group)
        told[str(status)] = _refusal(kinds, _problem_schema(endpoint, kinds, refused))
    return told


def _problem_schema(endpoint: Endpoint, kinds: list[ProblemKind], refused: dict[str, Schema]) -> str:
    reasons = sorted(kind.reason for kind in kinds)
    schema = {
        "allOf": [
            {"$ref": _REF.format(name="Problem")},
            {"type": "object", "properties": {"reason": {"type": "string", "enum": reasons}}},
        ]
    }
    same = next((name for name, found in refused.items() if found == schema), None)
    if same is not None:
        return same
    subject = reasons[0] if len(reasons) == 1 else f"{endpoint.operation_id}_{kinds[0].status}"
    name = "".join(word.capitalize() for word in subject.split("_")) + "Problem"
    refused[name] = schema
    return name


def problems_of(endpoint: Endpoint) -> list[ProblemKind]:
    """All problems of an endpoint: its own, and those raised before every handler."""
    found = [*endpoint.problems, *_ALWAYS, problems.RATE_LIMITED]
    if endpoint.access.is_required:
        found += _IDENTIFIED
    elif endpoint.access.is_optional:
        found.append(problems.UNAUTHORIZED)
    if endpoint.body is not None or endpoint.method in ("POST", "PUT", "PATCH", "DELETE"):
        found += _READ_BODY
    if endpoint.query is not None or endpoint.path_parameters or endpoint.headers:
        found.append(problems.INVALID_REQUEST)
    found += [header.missing for header in endpoint.headers if header.missing is not None]
    return list({kind.reason: kind for kind in found}.values())


def _refusal(kinds: list[ProblemKind], schema_name: str) -> Schema:
    reasons = ", ".join(f"`{kind.reason}`" for kind in kinds)
    told: Schema = {
        "description": f"{kinds[0].title}: {reasons}" if len(kinds) == 1 else f"Refused: {reasons}",
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": _REF.format(name=schema_name)},
                "examples": {kind.reason: {"summary": kind.title, "value": kind.document()} for kind in kinds},
            }
        },
    }
    if kinds[0].status in RETRY_LATER:
        told["headers"] = {
            "Retry-After": {"description": "Seconds to wait, jittered.", "schema": {"type": "integer", "minimum": 1}}
        }
    return told


def _json(body: Any) -> Schema:
    kinds = body if isinstance(body, tuple) else (body,)
    references = [{"$ref": _REF.format(name=kind.__name__)} for kind in kinds]
    return {"application/json": {"schema": references[0] if len(references) == 1 else {"anyOf": references}}}


def _components(endpoints: list[Endpoint]) -> Mapping[str, Schema]:
    used: list[Any] = [ProblemOut, WebhookEvent]
    for endpoint in endpoints:
        bodies = [endpoint.body, *(answer.body for answer in answers_of(endpoint).values())]
        for body in bodies:
            if body is not None and not isinstance(body, Document):
                used += body if isinstance(body, tuple) else (body,)
    _, components = msgspec.json.schema_components(used, schema_hook=custom_schema, ref_template=_REF)
    components["Problem"] = components.pop("ProblemOut") | {"title": "Problem"}
    return components


def _schema(kind: Any) -> Schema:
    return msgspec.json.schema(kind, schema_hook=custom_schema)


def _schema_of_struct(kind: Any) -> Schema:
    """With its fields in place; what they refer to (enums) is put where it is used."""
    _, components = msgspec.json.schema_components([kind], schema_hook=custom_schema, ref_template=_REF)
    resolved: Schema = _resolved(components[kind.__name__], components)
    return resolved


def _resolved(part: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(part, dict):
        if "$ref" in part:
            return _resolved(components[part["$ref"].rpartition("/")[2]], components)
        return {name: _resolved(value, components) for name, value in part.items()}
    return [_resolved(value, components) for value in part] if isinstance(part, list) else part


def _plain(part: Any) -> Any:
    """In JSON Schema `$` is the end of the text; only Python needs another word for that."""
    if isinstance(part, dict):
        plain = {name: _plain(value) for name, value in part.items()}
        if isinstance(plain.get("pattern"), str):
            plain["pattern"] = plain["pattern"].replace(END, "$")
        return plain
    return [_plain(value) for value in part] if isinstance(part, list) else part
