"""One operation of the API: what it takes, what it answers, and how to call it."""

from collections.abc import Iterator
from http import HTTPStatus

from msgspec import Struct

from holdfast.http.web.example import Examples, json_schema
from holdfast.http.web.html import Child, Html, element, inline, prose
from holdfast.http.web.schema import Field, Schema, Schemas

_METHODS = ("get", "put", "post", "patch", "delete")


class Operation(Struct, frozen=True):
    method: str
    path: str
    spec: Schema

    @property
    def anchor(self) -> str:
        words = self.path.replace("{", "").replace("}", "").strip("/").split("/")
        return "-".join([self.method, *words])

    @property
    def tag(self) -> str:
        tags = self.spec.get("tags") or ["other"]
        return str(tags[0])

    @property
    def answer(self) -> tuple[str, Schema]:
        """The status and description of success."""
        return next((status, told) for status, told in self.spec["responses"].items() if status.startswith("2"))


def operations_of(openapi: Schema) -> Iterator[Operation]:
    for path, methods in openapi["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield Operation(method, path, methods[method])


class OperationPages:
    """Operations as HTML, with the schemas of their document at hand."""

    def __init__(self, openapi: Schema) -> None:
        self._schemas = Schemas(openapi)
        self._examples = Examples(openapi)

    def article(self, operation: Operation) -> Html:
        summary = operation.spec.get("summary", operation.path)
        heading = element("h3", element("a", summary, href=f"#{operation.anchor}"))
        address = element("p", badge(operation.method), " ", element("code", operation.path), class_="address")
        told = prose(operation.spec.get("description", ""))
        access = prose(f"Access: {operation.spec.get('x-access', 'public')}.")
        words = element("div", heading, address, told, access, self._inputs(operation), self._outputs(operation))
        return element("article", words, self._shown(operation), id=operation.anchor)

    def _inputs(self, operation: Operation) -> list[Child]:
        places: dict[str, list[Field]] = {}
        for one in operation.spec.get("parameters", []):
            places.setdefault(one["in"], []).append(self._schemas.parameter(one))
        body = json_schema(operation.spec.get("requestBody", {}))
        if body is not None:
            places["body"] = self._schemas.fields(body)
        return [[element("h4", f"In the {place}"), _fields(fields)] for place, fields in places.items()]

    def _outputs(self, operation: Operation) -> list[Child]:
        _, response = operation.answer
        schema = json_schema(response)
        fields = [] if schema is None else self._schemas.fields(schema)
        folded = element("details", element("summary", "Fields of the answer"), _fields(fields)) if fields else None
        headers = [
            Field(name, "header", False, told.get("description", ""), [])
            for name, told in response.get("headers", {}).items()
        ]
        return [folded, [element("h4", "Headers of the answer"), _fields(headers)] if headers else None]

    def _shown(self, operation: Operation) -> Html:
        status, response = operation.answer
        title = f"{status} {HTTPStatus(int(status)).phrase}: {response.get('description', '')}"
        answer = self._examples.answer(operation.spec, response)
        curl = self._examples.curl(operation.method, operation.path, operation.spec)
        return element(
            "div",
            element("p", "Request", class_="caption"),
            code(curl, f"Example request: {operation.spec.get('summary', '')}"),
            element("p", title, class_="caption"),
            None if answer is None else code(answer, f"Example answer: {operation.spec.get('summary', '')}"),
            class_="shown",
        )


def _fields(fields: list[Field]) -> Html:
    return element("dl", [element("div", _term(field), _meaning(field)) for field in fields], class_="fields")


def _term(field: Field) -> Html:
    required = element("span", "required", class_="required") if field.required else None
    return element("dt", element("code", field.name), " ", element("span", field.type, class_="type"), " ", required)


def _meaning(field: Field) -> Html:
    said = element("p", inline(field.description)) if field.description else None
    limits = [element("li", inline(constraint)) for constraint in field.constraints]
    return element("dd", said, element("ul", limits) if limits else None)


def code(text: str, label: str) -> Html:
    # Long lines scroll, so the box can be reached and scrolled with the keyboard.
    return element("pre", element("code", text), tabindex="0", role="region", aria_label=label)


def badge(method: str) -> Html:
    return element("span", method.upper(), class_=f"method {method}")
