"""One script and one style sheet of a page, made from its modules when the server starts: there is no build step.

Each module becomes a function that returns its exports, in the order in which a browser would run them. That is enough
for modules as ours are written: imports first, no cycles, and no export that is assigned to again. What does not fit
is refused here, so that a page is never served half-bundled. The sources stay modules, and run in a browser too.
"""

import posixpath
import re
from collections.abc import Mapping

from holdfast.errors import HoldfastError

_IMPORT = re.compile(
    r"""^import\s*(?:(?P<all>\*\s*as\s+\w+)|(?P<default>\w+)|\{(?P<names>[^}]*)\})\s*from\s*["'](?P<path>[^"']+)["'];?""",
    re.MULTILINE,
)
_REEXPORT = re.compile(r"""^export\s*\{(?P<names>[^}]*)\}\s*from\s*["'](?P<path>[^"']+)["'];?""", re.MULTILINE)
_EXPORT_LIST = re.compile(r"export\s*\{(?P<names>[^}]*)\};?\s*\Z")
_EXPORT_DEFAULT = re.compile(r"^export\s+default\s+", re.MULTILINE)
_MINIFIED_DEFAULT = re.compile(r"export\s+default\s+(?=function|class|[({])")
_EXPORT = re.compile(r"^export\s+(?P<kind>(?:async\s+)?function\*?|class|const|let)\s+(?P<name>\w+)", re.MULTILINE)
# Whole lines only: what stands behind code may be part of a string.
_COMMENTS = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)
_HERE = "import.meta.url"


class CannotBundle(HoldfastError):
    """A module is written in a way that this bundler does not know."""


def bundle_scripts(entry: str, files: Mapping[str, bytes], paths: str = "") -> str:
    """The entry and everything it imports, by their paths below `/assets/`, as one module. Of the module `paths`, only
    what is used."""
    order: list[str] = []
    _visit(entry, files, order, ())
    variables = {path: f"$m{index}" for index, path in enumerate(order)}
    texts = {path: files[path].decode() for path in order}
    if paths in texts:
        texts[paths] = _used_paths(texts, paths)
    return "".join(_module(path, text, variables) for path, text in texts.items())


def _used_paths(texts: Mapping[str, str], paths: str) -> str:
    """The module of all paths, with those that a page names."""
    used = {name for text in texts.values() for name in re.findall(r"\bpaths\.(\w+)", text)}
    lines = texts[paths].splitlines(keepends=True)
    return "".join(line for line in lines if not (found := _EXPORT.match(line)) or found["name"] in used)


def bundle_styles(paths: list[str], files: Mapping[str, bytes]) -> str:
    return "".join(_INDENTATION.sub("", _COMMENTS.sub("", files[path].decode())) for path in paths)


def _visit(path: str, files: Mapping[str, bytes], order: list[str], above: tuple[str, ...]) -> None:
    if path in above:
        raise CannotBundle(f"{' → '.join((*above, path))} is a cycle of imports")
    if path in order:
        return
    if path not in files:
        raise CannotBundle(f"{above[-1]} imports {path}, which does not exist")
    text = files[path].decode()
    for found in sorted([*_IMPORT.finditer(text), *_REEXPORT.finditer(text)], key=lambda match: match.start()):
        _visit(_resolve(path, found["path"]), files, order, (*above, path))
    order.append(path)


def _resolve(path: str, wanted: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))


def _module(path: str, text: str, variables: Mapping[str, str]) -> str:
    return _Module(path, variables).wrapped(text)


class _Module:
    """One module, while its imports and exports are rewritten."""

    def __init__(self, path: str, variables: Mapping[str, str]) -> None:
        self._path, self._variables = path, variables
        self._exports: dict[str, str] = {}

    def wrapped(self, text: str) -> str:
        text = _COMMENTS.sub("", text)
        # The bundle is elsewhere, but what a module finds beside itself is where it was.
        text = text.replace(_HERE, f'new URL("/assets/{self._path}", {_HERE}).href')
        text = _REEXPORT.sub(self._reexported, _IMPORT.sub(self._imported, text))
        text = self._default(_EXPORT_LIST.sub(self._listed, _EXPORT.sub(self._declared, text)))
        if re.search(r"^(import|export)\b", text, re.MULTILINE) or "import(" in text:
            raise CannotBundle(f"{self._path} has an import or an export that cannot be bundled")
        shown = ", ".join(f"{name}: {value}" for name, value in self._exports.items())
        return f"const {self._variables[self._path]} = (() => {{\n{text.strip()}\nreturn {{ {shown} }};\n}})();\n"

    def _source(self, found: re.Match[str]) -> str:
        return self._variables[_resolve(self._path, found["path"])]

    def _imported(self, found: re.Match[str]) -> str:
        source = self._source(found)
        if found["all"]:
            return f"const {found['all'].split()[-1]} = {source};"
        if found["default"]:
            return f"const {found['default']} = {source}.default;"
        names = [name if name == other else f"{name}: {other}" for name, other in _names(found["names"])]
        return f"const {{{', '.join(names)}}} = {source};"

    def _reexported(self, found: re.Match[str]) -> str:
        self._exports.update({shown: f"{self._source(found)}.{name}" for name, shown in _names(found["names"])})
        return ""

    def _listed(self, found: re.Match[str]) -> str:
        self._exports.update({shown: name for name, shown in _names(found["names"])})
        return ""

    def _declared(self, found: re.Match[str]) -> str:
        self._exports[found["name"]] = found["name"]
        return f"{found['kind']} {found['name']}"

    def _default(self, text: str) -> str:
        for default in (_EXPORT_DEFAULT, _MINIFIED_DEFAULT):
            text, count = default.subn("const $default = ", text, count=1)
            if count:
                self._exports["default"] = "$default"
        return text


def _names(text: str) -> list[tuple[str, str]]:
    """`a, b as c` as pairs of the name inside and the name outside."""
    pairs = [re.split(r"\s+as\s+", part.strip()) for part in text.split(",") if part.strip()]
    return [(pair[0], pair[-1]) for pair in pairs]
