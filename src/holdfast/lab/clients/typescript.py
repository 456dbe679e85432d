"""The generated part of `clients/typescript/src`: types, calls and one method per operation."""

import json
from collections.abc import Iterable

from holdfast.http.contract.endpoint import Document
from holdfast.lab.clients.model import Api, Field, Operation, Schema, Type, public_name, reference, references

HEAD = "// Generated from the endpoint table by `make docs`. Do not edit.\n"
_PAGES = """\
  protected abstract pages<T>(
    next: (after?: string) => Call<{ data: T[]; has_more: boolean }>, cursor: keyof T,
  ): AsyncGenerator<T>;"""
_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def typescript_files(api: Api) -> dict[str, str]:
    files = dict.fromkeys(one.file for one in api.types.values())
    index = [HEAD, *(f'export * from "./types/{name}.js";' for name in files), ""]
    return {
        "types.ts": "\n".join(index),
        "reasons.ts": _reasons(api),
        "operations.ts": _operations(api),
        **{f"types/{name}.ts": _types(api, name) for name in files},
        **{f"calls/{name}.ts": _calls(api, name) for name in api.resources},
    }


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _types(api: Api, file: str) -> str:
    mine = [one for one in api.types.values() if one.file == file]
    used = {name for one in mine for name in references(one.schema)} - {one.schema_name for one in mine}
    by_file: dict[str, list[str]] = {}
    for name in sorted(used):
        by_file.setdefault(api.types[name].file, []).append(api.types[name].name)
    imports = [f'import type {{ {", ".join(names)} }} from "./{home}.js";' for home, names in by_file.items()]
    return "\n".join([HEAD, *imports, *map(_type, mine)])


def _type(one: Type) -> str:
    text = one.schema.get("description")
    words = [f"/** {text} */"] if text else []
    if one.values is not None:
        return "\n".join([*words, f"export type {one.name} = {_union(one.values)};\n"])
    return "\n".join([*words, f"export interface {one.name} {{", *map(_member, one.fields), "}\n"])


def _member(field: Field) -> str:
    words = f"  /** {field.description} */\n" if field.description else ""
    return f"{words}  {field.name}{'' if field.is_required else '?'}: {annotation(field.schema)};"


def annotation(schema: Schema) -> str:
    name = reference(schema)
    if name is not None:
        return public_name(name)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(annotation(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return _union(schema["enum"])
    if schema.get("type") == "array":
        inner = annotation(schema.get("items", {}))
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if schema.get("type") == "object":
        return f"Record<string, {annotation(schema.get('additionalProperties') or {})}>"
    return _PLAIN.get(schema.get("type", ""), "unknown")


def _union(values: Iterable[object]) -> str:
    return " | ".join(json.dumps(value) for value in values)


def _reasons(api: Api) -> str:
    lines = [
        HEAD,
        "/** Every reason that this version knows. A newer server may have others. */",
        "export type Reason =",
    ]
    return "\n".join([*lines, *(f'  | "{kind.reason}"' for kind in api.problems)]) + ";\n"


def _calls(api: Api, resource: str) -> str:
    mine = [operation for operation in api.operations if operation.resource == resource]
    body = "\n".join(map(_call, mine))
    used = sorted({public_name(name) for operation in mine for name in operation.references})
    helpers = [name for name in ("newKey", "pathOf") if f"{name}(" in body]
    lines = [HEAD, f'import {{ {", ".join(["type Call", *helpers])} }} from "../call.js";']
    if used:
        lines.append(f'import type {{ {", ".join(used)} }} from "../types.js";')
    return "\n".join([*lines, "", body])


def _call(operation: Operation) -> str:
    endpoint = operation.endpoint
    arguments = _arguments(operation)
    is_optional = all(not required for _, _, required in arguments)
    positional = [f"{name}: string" for name in endpoint.path_parameters]
    shape = " ".join(f"{_quoted(name)}{'' if required else '?'}: {kind};" for name, kind, required in arguments)
    if arguments:
        positional.append(f"args: {{ {shape} }}{' = {}' if is_optional else ''}")
    lines = [
        f"/** {endpoint.summary}. */",
        f"export function {camel(operation.name)}({', '.join(positional)}): Call<{_returned(operation)}> {{",
        *(["  const key = args.idempotency_key ?? newKey();"] if operation.has_key else []),
        f"  return {{ {', '.join(_parts(operation))} }};",
        "}\n",
    ]
    return "\n".join(lines)


def _arguments(operation: Operation) -> list[tuple[str, str, bool]]:
    """Names, types, and whether each is required. Idempotency keys are left out, because the client generates them."""
    fields = [*(operation.body or []), *operation.query]
    found = [(field.name, annotation(field.schema), field.is_required) for field in fields]
    for header, name in operation.header_parameters.items():
        found.append((name, "string", operation.headers[header][1]))
    return [(name, "string" if name == "idempotency_key" else kind, required and name != "idempotency_key")
            for name, kind, required in found]  # fmt: skip


def _parts(operation: Operation) -> list[str]:
    endpoint = operation.endpoint
    path = json.dumps(endpoint.template)
    if endpoint.path_parameters:
        path = f"pathOf({path}, {', '.join(endpoint.path_parameters)})"
    parts = [f'method: "{endpoint.method}"', f"path: {path}", f"answers: {_answers(operation)}"]
    if operation.query:
        parts.append(f"query: {_sent(field.name for field in operation.query)}")
    headers = operation.header_parameters
    if headers:
        given = ", ".join(f'"{header}": {_value(name)}' for header, name in headers.items())
        parts.append(f"headers: {{ {given} }}")
    if operation.body is not None:
        parts.append(f"body: {_sent(field.name for field in operation.body)}")
    if operation.has_key:
        parts.append("idempotencyKey: key")
    return [*parts, f"isRepeatable: {'true' if endpoint.if_unknown.is_retryable else 'false'}"]


def _sent(names: Iterable[str]) -> str:
    return "{ " + ", ".join(f"{_quoted(name)}: {_value(name)}" for name in names) + " }"


def _value(name: str) -> str:
    return "key" if name == "idempotency_key" else f"args.{name}"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _answers(operation: Operation) -> str:
    kinds = {status: _format(answer) for status, answer in operation.answers.items()}
    return "{ " + ", ".join(f'{status}: "{kind}"' for status, kind in kinds.items()) + " }"


def _format(answer: list[str] | Document) -> str:
    if isinstance(answer, Document):
        return "events" if answer.event_fields else "text"
    return "json" if answer else "nothing"


def _returned(operation: Operation) -> str:
    kinds: list[str] = []
    for answer in operation.answers.values():
        if isinstance(answer, Document):
            kinds.append("never" if answer.event_fields else "string")
        else:
            kinds += [public_name(name) for name in answer] or ["null"]
    return " | ".join(dict.fromkeys(kinds)) if not operation.is_stream else "never"


def _operations(api: Api) -> str:
    items = sorted({found[0].name for one in api.operations if (found := api.page_item(one)) is not None})
    lines = [
        HEAD,
        'import type { Call, StreamEvent } from "./call.js";',
        f'import type {{ {", ".join(items)} }} from "./types.js";',
        *(f'import * as {name} from "./calls/{name}.js";' for name in api.resources),
        "",
        "/** One method for each operation, and an iterator for each list that has pages. */",
        "export abstract class Operations {",
        "  abstract run<T>(call: Call<T>): Promise<T>;",
        "  abstract stream(call: Call<never>): AsyncGenerator<StreamEvent>;",
        _PAGES,
        "",
    ]
    for operation in api.operations:
        lines += _method(api, operation)
    return "\n".join([*lines, "}\n"])


def _method(api: Api, operation: Operation) -> list[str]:
    call = f"{operation.resource}.{camel(operation.name)}"
    does = "stream" if operation.is_stream else "run"
    lines = [
        f"  /** {operation.endpoint.summary}. */",
        f"  {camel(operation.name)}(...args: Parameters<typeof {call}>) {{ return this.{does}({call}(...args)); }}",
    ]
    found = api.page_item(operation)
    if found is None:
        return lines
    item, cursor = found
    path = operation.endpoint.path_parameters
    positional = [f"{name}: string" for name in path]
    shape = f"Parameters<typeof {call}>[{len(path)}]"
    given = ", ".join([*path, "{ ...args, ...(after === undefined ? {} : { starting_after: after }) }"])
    name = camel(operation.name.replace("list_", "iter_", 1))
    return [
        *lines,
        f"  {name}({', '.join([*positional, f'args: {shape} = {{}}'])}) {{",
        f'    return this.pages<{item.name}>((after) => {call}({given}), "{cursor}");',
        "  }",
    ]
