"""The description of the routes as OpenAPI 3.1, from the structs of their bodies."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import msgspec

from attar.server.problems import MEDIA_TYPE, TITLES
from attar.wire import FORM, JSON, MEDIA, Problem

Shape = Any  # a struct, a union of structs, `Upload`, or None for plain text

_TEXT = "text/plain"
_SCHEMAS = "#/components/schemas/"
_PATH: list[dict[str, Any]] = [
    {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "The document's name, percent-encoded; any characters, including slashes.",
        "schema": {"type": "string", "minLength": 1},
    },
    {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The job's id.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    },
]
_BINARY = {"type": "string", "format": "binary"}


class Upload(NamedTuple):
    """A file that was sent, as the whole body or in a form."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Route:
    """One route: routing, OpenAPI and the labels of metrics are made from it.

    `handler` takes the service, the request and, if there is a `body`, its struct or a list of files. It returns a
    struct of `replies`, a status and a struct, or a response. Its name is the label in metrics, its docstring the
    summary. With `changes`, it changes the library, which a read-only server or token may not.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[object]]
    body: type[msgspec.Struct] | type[Upload] | None = None
    replies: dict[int, Shape] = field(default_factory=lambda: {200: None})
    errors: tuple[int, ...] = ()
    _: KW_ONLY
    query: type[msgspec.Struct] | None = None
    changes: bool = False
    documented: bool = True

    @property
    def name(self) -> str:
        """The label in metrics."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """The handler's docstring, which is one sentence."""
        return (self.handler.__doc__ or "").rstrip(".")

    @property
    def operation(self) -> str:
        """The operation's id in OpenAPI: the name in camel case."""
        first, *others = self.name.split("_")
        return first + "".join(map(str.capitalize, others))


def openapi_document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    shapes: list[Shape] = [Problem]
    paths: dict[str, Any] = {}
    for route in routes:
        for shape in (route.body, *route.replies.values()):
            shapes += _structs(shape)
        paths.setdefault(_plain(route.path), {})[route.method.lower()] = _operation(route)
    _, schemas = msgspec.json.schema_components(shapes, ref_template=_SCHEMAS + "{name}")
    for schema in schemas.values():
        # The examples of a docstring are for readers of the code.
        schema["description"] = schema.get("description", "").partition(">>>")[0].strip()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Attar", "version": version, "description": "Questions about documents."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": route.operation, "summary": route.summary, "responses": {}}
    parameters = [parameter for parameter in _PATH if f"{{{parameter['name']}" in route.path]
    parameters += [] if route.query is None else _query_parameters(route.query)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body)}
    for status, shape in route.replies.items():
        content = {} if status == 204 else {"content": _content(shape)}
        operation["responses"][str(status)] = {"description": route.summary} | content
    problem = {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    for status in _errors(route):
        operation["responses"][str(status)] = {"description": TITLES[status], "content": problem}
    return operation


def _query_parameters(query: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """The fields of a query's struct as parameters."""
    _, schemas = msgspec.json.schema_components([query])
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": schema.pop("description"),
            "schema": schema,
        }
        for name, schema in schemas[query.__name__]["properties"].items()
    ]


def _errors(route: Route) -> list[int]:
    """The statuses of a route's refusals: its own, and those of all routes of its kind."""
    api = (413, 422) if route.path.startswith("/v1/") else ()
    body = (415,) if route.body is not None else ()
    changes = (403,) if route.changes else ()
    return sorted({*route.errors, 400, 401, 503, 504, *api, *body, *changes})


def _content(shape: Shape) -> dict[str, Any]:
    if shape is None:
        return {_TEXT: {"schema": {"type": "string"}}}
    if shape is Upload:
        files = {"type": "array", "items": _BINARY, "minItems": 1}
        form = {"type": "object", "properties": {"file": files}, "required": ["file"]}
        return {MEDIA: {"schema": _BINARY}, FORM: {"schema": form}}
    schemas = [{"$ref": _SCHEMAS + struct.__name__} for struct in _structs(shape)]
    return {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _structs(shape: Shape) -> Sequence[type[msgspec.Struct]]:
    return getattr(shape, "__args__", [shape]) if shape not in (None, Upload) else []


def _plain(path: str) -> str:
    """A path without Starlette's convertors.

    >>> _plain("/v1/documents/{name:any}")
    '/v1/documents/{name}'
    """
    return path.replace(":any}", "}")
