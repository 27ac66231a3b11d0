"""The description of the routes as OpenAPI 3.1, from the structs of their bodies."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import msgspec

from attar.server.problems import MEDIA_TYPE
from attar.wire import FORM, JSON, MEDIA, Problem

Shape = Any  # a struct, a union of structs, `Upload`, or None for plain text

_SCHEMAS = "#/components/schemas/"
_PATH = {
    "name": {
        "description": "The document's name, percent-encoded; any characters, including slashes.",
        "schema": {"type": "string", "minLength": 1},
    },
    "id": {"description": "The job's id.", "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
}
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
    _: KW_ONLY
    query: type[msgspec.Struct] | None = None
    changes: bool = False
    documented: bool = True

    @property
    def name(self) -> str:
        """The label in metrics."""
        return self.handler.__name__


def openapi_document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Every route, with the types and ranges of all fields; every refusal is a problem object."""
    shapes = [Problem, *(struct for route in routes for struct in _structs(route.body))]
    shapes += [struct for route in routes for reply in route.replies.values() for struct in _structs(reply)]
    _, schemas = msgspec.json.schema_components(shapes, ref_template=_SCHEMAS + "{name}")
    for schema in schemas.values():
        # The examples of a docstring are for readers of the code.
        schema["description"] = schema.get("description", "").partition(">>>")[0].strip()
    paths: dict[str, Any] = {}
    for route in routes:
        # Without Starlette's convertors.
        paths.setdefault(route.path.replace(":any}", "}"), {})[route.method.lower()] = _operation(route)
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
    summary = (route.handler.__doc__ or "").rstrip(".")
    parameters = [
        {"name": name, "in": "path", "required": True, **described}
        for name, described in _PATH.items()
        if f"{{{name}" in route.path
    ]
    if route.query is not None:
        _, schemas = msgspec.json.schema_components([route.query])
        parameters += [
            {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}
            for name, schema in schemas[route.query.__name__]["properties"].items()
        ]
    problem = {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    responses = {
        str(status): {"description": summary} | ({} if status == 204 else {"content": _content(shape)})
        for status, shape in route.replies.items()
    }
    responses["default"] = {"description": "A problem object (RFC 9457)", "content": problem}
    operation = {
        "operationId": route.name,
        "summary": summary,
        "parameters": parameters,
        "responses": responses,
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body)}
    return operation


def _content(shape: Shape) -> dict[str, Any]:
    if shape is None:
        return {"text/plain": {"schema": {"type": "string"}}}
    if shape is Upload:
        files = {"type": "array", "items": _BINARY, "minItems": 1}
        form = {"type": "object", "properties": {"file": files}, "required": ["file"]}
        return {MEDIA: {"schema": _BINARY}, FORM: {"schema": form}}
    schemas = [{"$ref": _SCHEMAS + struct.__name__} for struct in _structs(shape)]
    return {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _structs(shape: Shape) -> Sequence[type[msgspec.Struct]]:
    return getattr(shape, "__args__", [shape]) if shape not in (None, Upload) else []
