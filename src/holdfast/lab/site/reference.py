"""The reference, generated from declarations in the code: API, errors, settings, metrics, events, commands."""

import json
from collections.abc import Iterator
from typing import Any

import click
import prometheus_client
import typer.main

from holdfast.cli.app import app
from holdfast.cli.lazy import Unloaded
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.openapi import openapi_document, operation_name, problems_of
from holdfast.http.contract.openapi_webhooks import webhooks
from holdfast.http.contract.problem import ProblemKind
from holdfast.http.contract.problems import CATALOGUE
from holdfast.http.web.example import Examples, json_schema
from holdfast.http.web.schema import Field, Schemas
from holdfast.lab.bench.document.markdown import table
from holdfast.runtime import metrics
from holdfast.settings import Settings

_SHOWN = [endpoint for endpoint in ENDPOINTS if endpoint.is_documented]


def reference_pages() -> dict[str, str]:
    return {
        "api.md": _page("API", _api()),
        "errors.md": _page("Errors", _errors()),
        "settings.md": _page("Settings", _settings()),
        "metrics.md": _page("Metrics", _metrics()),
        "events.md": _page("Events", _events()),
        "cli.md": _page("Commands", _commands()),
    }


def _page(title: str, parts: Iterator[str]) -> str:
    return "\n\n".join([f"# {title}", *parts]) + "\n"


def _api() -> Iterator[str]:
    document = openapi_document(ENDPOINTS)
    yield "Times are RFC 3339 in UTC. Refusals are `application/problem+json`: see [Errors](errors.md)."
    for tag in document["tags"]:
        yield f"## {tag['name']}\n\n{tag['description']}"
        for endpoint in _SHOWN:
            if endpoint.tag == tag["name"]:
                yield from _operation(endpoint, document)


def _operation(endpoint: Endpoint, document: dict[str, Any]) -> Iterator[str]:
    spec = document["paths"][endpoint.template][endpoint.method.lower()]
    schemas, examples = Schemas(document), Examples(document)
    yield f"### {endpoint.summary} {{#{operation_name(endpoint).replace('.', '-')}}}"
    yield f"`{endpoint.method} {endpoint.template}` · {endpoint.access.name}"
    if endpoint.description:
        yield endpoint.description
    given = [schemas.parameter(one) for one in spec.get("parameters", [])]
    body = json_schema(spec.get("requestBody", {}))
    fields = given + ([] if body is None else schemas.fields(body))
    if fields:
        yield _fields(fields)
    yield _fenced("sh", examples.curl(endpoint.method.lower(), endpoint.template, spec))
    status, response = next((one, told) for one, told in spec["responses"].items() if one.startswith("2"))
    answer = examples.answer(spec, response)
    if answer is not None:
        yield f"Answers {status}:"
        yield _fenced("json", answer)
    reasons = ", ".join(f"[`{kind.reason}`](errors.md#{kind.reason})" for kind in problems_of(endpoint))
    yield f"Refusals: {reasons}. If the outcome is unknown: {endpoint.if_unknown}"


def _fields(fields: list[Field]) -> str:
    rows = [
        [f"`{one.name}`" + (" (required)" if one.required else ""), one.type,
         _cell(" ".join([one.description, "; ".join(one.constraints)]).strip())]
        for one in fields
    ]  # fmt: skip
    return table(["field", "type", "meaning"], rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _errors() -> Iterator[str]:
    yield (
        "Every refusal has a stable `reason` and says whether the same request is worth sending again (`retryable`). "
        "The Python client has a class for each: [Client libraries](../CLIENTS.md)."
    )
    for kind in CATALOGUE.values():
        yield from _error(kind)


def _error(kind: ProblemKind) -> Iterator[str]:
    yield f"## {kind.reason} {{#{kind.reason}}}"
    yield f"**{kind.status}** · {kind.title}{' · retryable' if kind.retryable else ''}"
    yield f"{kind.detail} {kind.action}".strip()
    found = [endpoint for endpoint in _SHOWN if kind in endpoint.problems]
    if found:
        names = (f"[`{operation_name(one)}`](api.md#{operation_name(one).replace('.', '-')})" for one in found)
        yield f"Answered by {', '.join(names)}."


def _settings() -> Iterator[str]:
    yield "From the environment, or without the prefix from `holdfast.toml`."
    fields = {name: field for name, field in Settings.model_fields.items() if name != "demo"}
    rows = [
        [f"`HOLDFAST_{name.upper()}`", _default(field.default), _cell(field.description or "")]
        for name, field in fields.items()
    ]
    yield table(["setting", "default", "meaning"], rows)


def _default(value: Any) -> str:
    shown = value.get_secret_value() if hasattr(value, "get_secret_value") else value
    return "" if shown in (None, "") else f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"


def _metrics() -> Iterator[str]:
    yield "At `GET /metrics`, in Prometheus' format. Counters end in `_total`."
    kinds = (prometheus_client.Counter, prometheus_client.Gauge, prometheus_client.Histogram)
    found = [one for one in vars(metrics).values() if isinstance(one, kinds)]
    told = sorted((told.name, told.type, told.documentation) for one in found for told in one.describe())
    yield table(["metric", "type", "meaning"], [[f"`{name}`", kind, _cell(words)] for name, kind, words in told])


def _events() -> Iterator[str]:
    yield "Posted to your [webhooks](../WEBHOOKS.md) as CloudEvents, signed as Standard Webhooks."
    for name, webhook in webhooks().items():
        [content] = webhook["post"]["requestBody"]["content"].values()
        yield f"## {name} {{#{name.replace('.', '-')}}}"
        yield _fenced("json", json.dumps(content["example"], indent=2, ensure_ascii=False))


def _commands() -> Iterator[str]:
    yield "Exit status: 0 for good, 1 for a finding, 2 for wrong use. `--json` prints one object and nothing else."
    yield from _command(typer.main.get_command(app), "holdfast", None)


def _command(command: Any, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    path = context.command_path
    if parent is not None:
        yield f"## {path} {{#{path.replace(' ', '-')}}}"
        yield str(command.help or command.short_help or "").partition("\f")[0].strip()
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    rows = [[f"`{_option(one)}`", _cell(getattr(one, "help", None) or "")] for one in shown]
    if rows and parent is not None:
        yield table(["option", "meaning"], rows)
    for child in getattr(command, "list_commands", lambda _: [])(context):
        found = command.get_command(context, child)
        found = found.load() if isinstance(found, Unloaded) else found
        if found is not None and not found.hidden:
            yield from _command(found, child, context)


def _option(one: Any) -> str:
    return ", ".join(one.opts) if one.param_type_name == "option" else str(one.name).upper()
