"""JSON Schema, as far as our OpenAPI document uses it, in words."""

from typing import Any

from msgspec import Struct, structs

Schema = dict[str, Any]

# How the pattern of our ids begins; words say it better.
_PRINTABLE = r"^[^\x00-\x1f\x7f]+"


class Field(Struct, frozen=True):
    name: str
    type: str
    required: bool
    description: str
    # Short phrases; what is between backticks is code.
    constraints: list[str]


class Schemas:
    """The schemas of one OpenAPI document, with their references followed."""

    def __init__(self, document: Schema) -> None:
        self._document = document

    def resolve(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if reference is None:
            return schema
        found: Any = self._document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        return self.resolve(found) | {name: value for name, value in schema.items() if name != "$ref"}

    def without_null(self, schema: Schema) -> tuple[Schema, bool]:
        """What a value must be if it is there, and whether it may be null instead."""
        schema = self.resolve(schema)
        options = schema.get("anyOf")
        if options is None:
            return schema, False
        kept = [option for option in options if option.get("type") != "null"]
        around = {name: value for name, value in schema.items() if name != "anyOf"}
        return (self.resolve(kept[0]) if kept else {}) | around, len(kept) < len(options)

    def fields(self, schema: Schema) -> list[Field]:
        """The members of an object, or of the objects in a list; of a member that is an object, its members too."""
        schema = self.resolve(schema)
        if schema.get("type") == "array":
            return self.fields(schema["items"])
        required = schema.get("required", [])
        found = []
        for name, part in schema.get("properties", {}).items():
            found.append(self.field(name, part, name in required))
            inner, _ = self.without_null(part)
            if inner.get("type") == "object":
                found += [structs.replace(member, name=f"{name}.{member.name}") for member in self.fields(inner)]
        return found

    def field(self, name: str, schema: Schema, required: bool) -> Field:
        inner, nullable = self.without_null(schema)
        kind = self._type(inner) + (" or null" if nullable else "")
        return Field(name, kind, required, inner.get("description", ""), constraints(inner))

    def parameter(self, given: Schema) -> Field:
        """Nothing in an address or a header can be null: it is there or it is not."""
        inner, _ = self.without_null(given["schema"])
        described = inner | {"description": given.get("description", inner.get("description", ""))}
        return self.field(given["name"], described, given.get("required", False))

    def _type(self, schema: Schema) -> str:
        if schema.get("type") == "array":
            return f"list of {self._type(self.resolve(schema['items']))}"
        if schema.get("type") == "object":
            return str(schema.get("title", "object"))
        return str(schema.get("format") or schema.get("type") or "any")


def constraints(schema: Schema) -> list[str]:
    told = []
    if "enum" in schema:
        told.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    told += _range(schema.get("minimum"), schema.get("maximum"), "")
    told += _range(schema.get("minLength"), schema.get("maxLength"), " characters")
    pattern = schema.get("pattern")
    if pattern is not None:
        told.append("no control characters" if pattern.startswith(_PRINTABLE) else f"matches `{pattern}`")
    if schema.get("default") is not None:
        told.append(f"default `{schema['default']}`")
    return told


def _range(least: float | None, most: float | None, unit: str) -> list[str]:
    if least is not None and most is not None:
        return [f"{least:,} to {most:,}{unit}"]
    if least is not None:
        return [f"at least {least:,}{unit}"]
    return [f"at most {most:,}{unit}"] if most is not None else []
