"""The paths of the API as a JavaScript module: the console and the storefront name an operation, not a URL."""

from collections.abc import Iterable

from holdfast.http.contract.endpoint import Endpoint

MODULE = "paths.mjs"

_HEAD = """\
// Generated from the endpoint table. Each function takes the path parameters in order and returns the path.
const part = encodeURIComponent;

"""


def paths_module(endpoints: Iterable[Endpoint]) -> str:
    return _HEAD + "".join(_function(endpoint) for endpoint in endpoints if endpoint.is_documented)


def _function(endpoint: Endpoint) -> str:
    names = endpoint.path_parameters
    path = endpoint.template
    for name in names:
        path = path.replace(f"{{{name}}}", f"${{part({_camel(name)})}}")
    return f"export const {_camel(endpoint.operation_id)} = ({', '.join(map(_camel, names))}) => `{path}`;\n"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
