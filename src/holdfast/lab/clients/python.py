"""The generated part of `holdfast.client`."""

import keyword
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from holdfast.http.contract.endpoint import Document
from holdfast.http.contract.problem import ProblemKind
from holdfast.lab.clients.model import Api, Field, Operation, Schema, Type, public_name, reference, references

HEAD = "# Generated from the endpoint table by `make docs`. Do not edit.\n"
_CALLS = f'{HEAD}"""Each operation as a function that describes the call; a client sends it."""\n'
_LINE = 120
_VALUES_MAX = 8
_PLAIN = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}
_BY_STATUS = {401: "NotAllowed", 403: "NotAllowed", 404: "NotFound", 410: "NotFound", 409: "Conflict"}
_BY_STATUS |= {429: "TooManyRequests", 500: "ServerProblem", 503: "ServerProblem"}


def python_files(api: Api) -> dict[str, str]:
    files = {"types/__init__.py": _type_index(api), "calls/__init__.py": _CALLS}
    files |= {f"problems/{name}.py": text for name, text in _problems(api).items()}
    files |= {f"types/{name}.py": _types(api, name) for name in dict.fromkeys(one.file for one in api.types.values())}
    files |= {f"calls/{name}.py": _calls(api, name) for name in api.resources}
    files |= {"operations.py": _methods(api, ""), "async_operations.py": _methods(api, "Async")}
    return formatted(files)


def formatted(files: dict[str, str]) -> dict[str, str]:
    """Formats the files with ruff, which also removes unused imports."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            file = Path(directory) / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        _ruff(
            "check", "--fix", "--select", "I,F401", "--config", 'lint.isort.known-first-party=["holdfast"]', directory
        )
        _ruff("format", directory)
        return {name: (Path(directory) / name).read_text() for name in files}


def _ruff(command: str, *arguments: str) -> None:
    options = ["--isolated", "--no-cache", "--quiet", "--config", f"line-length={_LINE}", "--target-version", "py311"]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", command, *options, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[:2_000]


def _type_index(api: Api) -> str:
    """Re-exports every type: `from holdfast.client.types import Reservation`."""
    lines = [HEAD, '"""What calls return, and what they take besides plain values."""\n']
    lines += [f"from holdfast.client.types.{one.file} import {one.name}" for one in api.types.values()]
    names = ", ".join(f'"{name}"' for name in sorted(one.name for one in api.types.values()))
    return "\n".join([*lines, f"__all__ = [{names}]", ""])


def _types(api: Api, file: str) -> str:
    mine = [one for one in api.types.values() if one.file == file]
    used = {name for one in mine for name in references(one.schema)} - {one.schema_name for one in mine}
    lines = [
        HEAD,
        f'"""Types of the resource `{file.partition("_")[0]}`."""',
        "from datetime import datetime",
        "from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict",
        "from msgspec import Struct",
        *_imports(api, sorted(used)),
    ]
    # A newer server may send other values, so only type checkers know the list.
    enums = [one for one in mine if one.values is not None]
    if enums:
        lines.append("if TYPE_CHECKING:")
        lines += [f"    {one.name} = {_literal(one.values or [])}" for one in enums]
        lines.append("else:")
        lines += [f"    {one.name} = str" for one in enums]
    lines += [_class(one) for one in mine if one.values is None]
    return "\n".join(lines) + "\n"


def _imports(api: Api, schema_names: Iterable[str]) -> list[str]:
    found = [api.types[name] for name in schema_names]
    return [f"from holdfast.client.types.{one.file} import {one.name}" for one in found]


def _class(one: Type) -> str:
    if one.is_input:
        return _typed_dict(one)
    renamed = {_safe(field.name): field.name for field in one.fields if _safe(field.name) != field.name}
    options = f", rename={renamed!r}" if renamed else ""
    lines = [f"\nclass {one.name}(Struct, frozen=True, kw_only=True{options}):"]
    lines += _docstring(one)
    for field in one.fields:
        kind = annotation(field.schema)
        is_nullable = "None" in kind.split(" | ")
        # Nullable fields may also be missing, because an older server does not know them.
        if not field.is_required and not is_nullable:
            kind = f"{kind} | None"
        written = f"    {_safe(field.name)}: {kind}" + ("" if field.is_required and not is_nullable else " = None")
        lines.append(_with_comment(written, field.description))
    return "\n".join(lines) + "\n"


def _typed_dict(one: Type) -> str:
    lines = [f"\nclass {one.name}(TypedDict):", *_docstring(one)]
    for field in one.fields:
        kind = annotation(field.schema, is_input=True)
        lines.append(f"    {field.name}: {kind if field.is_required else f'NotRequired[{kind}]'}")
    return "\n".join(lines) + "\n"


def _docstring(one: Type) -> list[str]:
    text = one.schema.get("description")
    return [f'    """{text}"""\n'] if text else []


def _with_comment(line: str, words: str) -> str:
    """Adds the comment if it fits on the line. The reference page has all of them."""
    commented = f"{line}  # {words}"
    return commented if words and len(commented) <= _LINE else line


def annotation(schema: Schema, *, is_input: bool = False) -> str:
    name = reference(schema)
    if name is not None:
        return public_name(name)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(annotation(part, is_input=is_input) for part in schema["anyOf"]))
    if "enum" in schema:
        # A long list of values is less helpful than the server's own error message.
        return _literal(schema["enum"]) if is_input and len(schema["enum"]) <= _VALUES_MAX else "str"
    if schema.get("format") == "date-time":
        return "datetime | str" if is_input else "datetime"
    if schema.get("type") == "array":
        return f"list[{annotation(schema.get('items', {}), is_input=is_input)}]"
    if schema.get("type") == "object":
        return f"dict[str, {annotation(schema.get('additionalProperties') or {}, is_input=is_input)}]"
    return _PLAIN.get(schema.get("type", ""), "Any")


def _literal(values: Iterable[object]) -> str:
    return f"Literal[{', '.join(repr(value) for value in values)}]"


def _safe(name: str) -> str:
    """Converts a name to snake case, and avoids keywords."""
    snake = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"{snake}_" if keyword.iskeyword(snake) else snake


def _calls(api: Api, resource: str) -> str:
    mine = [operation for operation in api.operations if operation.resource == resource]
    used = {name for one in mine for name in one.references}
    return "\n".join(
        [
            HEAD,
            f'"""Calls of `{resource}`."""',
            "from datetime import datetime",
            "from typing import Any, Literal",
            "from msgspec import UNSET, UnsetType",
            "from holdfast.client.call import Call, new_key, optional, path_of",
            "from holdfast.client.stream import StreamEvent",
            *_imports(api, sorted(used)),
            *(_call(api, operation) for operation in mine),
        ]
    )


def _call(api: Api, operation: Operation) -> str:
    endpoint = operation.endpoint
    path = f'"{endpoint.template}"'
    if endpoint.path_parameters:
        path = f"path_of({path}, {', '.join(endpoint.path_parameters)})"
    arguments = [f'method="{endpoint.method}"', f"path={path}", f"answers={_answers(api, operation)}"]
    if operation.query:
        arguments.append(f"query={_sent(operation.query)}")
    headers = operation.header_parameters
    if headers:
        arguments.append(f"headers={{{', '.join(f'{header!r}: {_safe(name)}' for header, name in headers.items())}}}")
    if operation.body is not None:
        arguments.append(f"body={_sent(operation.body)}")
    if operation.has_key:
        arguments.append("idempotency_key=idempotency_key")
    if not endpoint.if_unknown.is_retryable:
        arguments.append("is_repeatable=False")
    key = ["    idempotency_key = idempotency_key or new_key()"] if operation.has_key else []
    head = f"\ndef {operation.name}({_parameters(operation)}) -> Call[{_returned(api, operation)}]:"
    return "\n".join([head, _words(operation), *key, f"    return Call({', '.join(arguments)},)\n"])


def _words(operation: Operation) -> str:
    endpoint = operation.endpoint
    described = [endpoint.description] if endpoint.description and len(endpoint.description) < 300 else []
    lines = [f"{endpoint.summary}.", *_wrapped(described)]
    return '    """' + "\n    ".join(lines) + ('\n    """' if len(lines) > 1 else '"""')


def _wrapped(texts: list[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines.append("")
        line = ""
        for word in text.split():
            if len(line) + len(word) > 110:
                lines.append(line)
                line = ""
            line = f"{line} {word}".strip()
        lines.append(line)
    return lines


def _sent(fields: list[Field]) -> str:
    """A query has no null, so parameters that are None are left out."""
    parts = []
    for field in fields:
        name = _safe(field.name)
        is_plain = field.is_required or field.name == "idempotency_key" or not _is_none_default(field)
        parts.append(f'"{field.name}": {name if is_plain else f"optional({name})"}')
    return "{" + ", ".join(parts) + "}"


def _is_none_default(field: Field) -> bool:
    return field.is_null_left_out or ("anyOf" not in field.schema and "default" not in field.schema)


def _parameters(operation: Operation) -> str:
    positional = [f"{name}: str" for name in operation.endpoint.path_parameters]
    named = [_parameter(field) for field in [*(operation.body or []), *operation.query]]
    for header, name in operation.header_parameters.items():
        is_required = operation.headers[header][1] and name != "idempotency_key"
        named.append(f"{_safe(name)}: str" if is_required else f"{_safe(name)}: str | None = None")
    # No trailing comma, so the formatter decides whether the parameters fit on one line.
    return ", ".join([*positional, *(["*", *named] if named else [])])


def _parameter(field: Field) -> str:
    name, kind = _safe(field.name), annotation(field.schema, is_input=True)
    if field.name == "idempotency_key":
        return f"{name}: str | None = None"
    if field.is_required:
        return f"{name}: {kind}"
    if _is_none_default(field):
        return f"{name}: {kind if 'None' in kind.split(' | ') else f'{kind} | None'} = None"
    kinds = [one for one in kind.split(" | ") if one != "None"]
    return f"{name}: {' | '.join([*kinds, 'UnsetType', *(['None'] if 'None' in kind.split(' | ') else [])])} = UNSET"


def _kinds(api: Api, answer: list[str] | Document) -> list[str]:
    """Types with the most required fields come first: if two match, the larger one says more."""
    if isinstance(answer, Document):
        return ["StreamEvent" if answer.event_fields else "str"]
    found = sorted((api.types[name] for name in answer), key=lambda one: -len(one.schema.get("required", [])))
    return [one.name for one in found]


def _answers(api: Api, operation: Operation) -> str:
    told = []
    for status, answer in operation.answers.items():
        kinds = _kinds(api, answer)
        told.append(f"{status}: ({', '.join(kinds)}{',' if len(kinds) == 1 else ''})")
    return "{" + ", ".join(told) + "}"


def _returned(api: Api, operation: Operation) -> str:
    if operation.is_stream:
        return "StreamEvent"
    kinds = [kind for answer in operation.answers.values() for kind in _kinds(api, answer) or ["None"]]
    return " | ".join(dict.fromkeys(kinds))


def _methods(api: Api, flavour: str) -> str:
    prefix = flavour.lower() + ("_" if flavour else "")
    makers = ", ".join(f"{prefix}{name}" for name in ("method", "pages", "stream"))
    lines = [
        HEAD,
        '"""One method for each operation, and an iterator for each list that has pages."""',
        # Aliased, because a resource may have the same name as one of its operations.
        *(f"from holdfast.client.calls import {name} as {name}_calls" for name in api.resources),
        f"from holdfast.client.methods import {makers}",
    ]
    body = []
    for operation in api.operations:
        maker = "stream" if operation.is_stream else "method"
        call = f"{operation.resource}_calls.{operation.name}"
        # `help()` shows the call's docstring; editors show the text below the name.
        words = f'    """{operation.endpoint.summary}."""'
        body += [f"    {operation.name} = {prefix}{maker}({call})", words]
        found = api.page_item(operation)
        if found is not None:
            item, cursor = found
            lines += _imports(api, [item.schema_name])
            name = operation.name.replace("list_", "iter_", 1)
            body += [f'    {name} = {prefix}pages({call}, {item.name}, "{cursor}")', words]
    return "\n".join([*lines, f"\nclass {flavour}Methods:", *body, ""])


def _problems(api: Api) -> dict[str, str]:
    """One file per error class, by status."""
    by_base: dict[str, list[ProblemKind]] = {}
    for kind in api.problems:
        by_base.setdefault(_BY_STATUS.get(kind.status, "InvalidCall"), []).append(kind)
    files = {_safe(base): _problem_classes(base, kinds) for base, kinds in by_base.items()}
    lines = [HEAD, '"""A class for each `reason` of a refusal: `except SoldOut:` instead of a comparison."""']
    found = {_class_name(kind): _safe(base) for base, kinds in by_base.items() for kind in kinds}
    lines += [f"from holdfast.client.problems.{file} import {name}" for name, file in found.items()]
    lines.append("from holdfast.client.errors import BY_REASON")
    names = ", ".join(f'"{name}"' for name in ["BY_REASON", *sorted(found)])
    return files | {"__init__": "\n".join([*lines, f"__all__ = [{names}]", ""])}


def _problem_classes(base: str, kinds: list[ProblemKind]) -> str:
    lines = [HEAD, f'"""Reasons below `{base}`."""', "from holdfast.client import errors"]
    for kind in kinds:
        lines += [
            f'\nclass {_class_name(kind)}(errors.{base}, reason="{kind.reason}"):',
            f'    """{kind.status}: {_sentence(kind)}"""\n',
        ]
    return "\n".join(lines)


def _class_name(kind: ProblemKind) -> str:
    return "".join(word.capitalize() for word in kind.reason.split("_"))


def _sentence(kind: ProblemKind) -> str:
    said = kind.detail if len(kind.detail) < 100 else f"{kind.title}."
    return said.replace("\\", "\\\\")
