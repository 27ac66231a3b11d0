"""The routes as OpenAPI 3.1 describes them, from the very structs that the bodies are read with."""

import html
from functools import cache
from typing import Any, NamedTuple

import msgspec

import attar
from attar import wire
from attar.results import Change
from attar.server.problems import MEDIA as PROBLEM
from attar.server.problems import TITLES

JSON, BINARY, TEXT = "application/json", "application/octet-stream", "text/plain"
NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The document's name, percent-encoded; any characters, slashes too.",
    "schema": {"type": "string", "minLength": 1},
}
Shape = Any  # a type that msgspec has a schema for


class Operation(NamedTuple):
    """A route: what it takes, gives and refuses."""

    method: str
    path: str
    name: str
    summary: str
    body: Shape = None
    answers: dict[int, Shape] = {200: None}  # noqa: RUF012  # nobody writes it
    refusals: tuple[int, ...] = ()
    query: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    binary: bool = False


LIMIT = {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100}
LIST = (("after", "only names behind this one", {"type": "string"}), ("limit", "so many at most", LIMIT))
MEMORY = (("memory", "1: the memory's numbers too", {"type": "string", "enum": ["0", "1"]}),)
CHANGED = {201: Change, 200: Change}
WRITING = (400, 403, 404, 413, 415, 422)
READING = (400, 404, 413, 415, 422)
DOCUMENT, DOCUMENTS = "/v1/documents/{name}", "/v1/documents"

OPERATIONS = (
    Operation(
        "put",
        DOCUMENT,
        "putDocument",
        "Add a document, or replace it",
        wire.PutDocument,
        CHANGED,
        (*WRITING, 409),
    ),
    Operation(
        "post",
        f"{DOCUMENT}/append",
        "appendText",
        "Read on",
        wire.AppendText,
        {200: Change},
        WRITING,
    ),
    Operation(
        "post",
        wire.MERGE,
        "mergeDocuments",
        "Make one document of several, which stay",
        wire.Merge,
        {200: Change},
        (*WRITING, 409),
    ),
    Operation(
        "post",
        wire.REMOVE,
        "removeDocuments",
        "Remove documents: all of them, or none",
        wire.Remove,
        {204: None},
        WRITING,
    ),
    Operation("get", DOCUMENTS, "listDocuments", "List documents", None, {200: wire.Page}, (413, 422), LIST),
    Operation(
        "get",
        DOCUMENT,
        "showDocument",
        "Show a document",
        None,
        {200: wire.ShownDocument},
        (404, 413, 422),
        MEMORY,
    ),
    Operation(
        "delete", DOCUMENT, "removeDocument", "Take a document out", None, {204: None}, (403, 404, 413, 422)
    ),
    Operation(
        "post",
        "/v1/ask",
        "ask",
        "Ask one question or many, of one document or many",
        wire.Ask,
        {200: wire.Answers | wire.ManyAnswers},
        READING,
    ),
    Operation(
        "post",
        "/v1/lookup",
        "lookup",
        "Look raw vectors up in memories",
        wire.Lookup,
        {200: wire.Readout | wire.Readouts},
        READING,
        binary=True,
    ),
    Operation(
        "post",
        "/v1/explain",
        "explain",
        "The weight of each token for a question",
        wire.Explain,
        {200: wire.Explanation},
        READING,
    ),
    Operation(
        "post",
        "/v1/compare",
        "compare",
        "Measure a lookup beside softmax",
        wire.Compare,
        {200: wire.Comparison},
        READING,
    ),
    Operation("get", "/healthz", "health", "Alive"),
    Operation("get", "/readyz", "readiness", "Able to answer"),
    Operation("get", "/metrics", "metrics", "What was counted, for Prometheus"),
)


@cache
def description() -> dict[str, Any]:
    """The whole of it.

    >>> description()["openapi"], "/v1/ask" in description()["paths"]
    ('3.1.0', True)
    """
    shapes = [wire.Problem]
    for each in OPERATIONS:
        found = [each.body, *each.answers.values()]
        for shape in found:
            shapes += getattr(shape, "__args__", [shape]) if shape is not None else []
    _, components = msgspec.json.schema_components(shapes, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Attar", "version": attar.__version__, "description": "Documents in, answers out."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def operation(each: Operation) -> dict[str, Any]:
    """One route as OpenAPI describes it."""
    told: dict[str, Any] = {"operationId": each.name, "summary": each.summary, "responses": {}}
    parameters = [NAME] if "{name}" in each.path else []
    for word, what, schema in each.query:
        parameters.append({"name": word, "in": "query", "description": what, "schema": schema})
    if parameters:
        told["parameters"] = parameters
    if each.body is not None:
        told["requestBody"] = {"required": True, "content": content(each.body, each.binary)}
    for status, shape in each.answers.items():
        told["responses"][str(status)] = {"description": each.summary} | (
            {"content": content(shape, each.binary)} if status != 204 else {}
        )
    for status in sorted({*each.refusals, 401, 421, 503, 504}):
        answer = {"schema": {"$ref": "#/components/schemas/Problem"}}
        told["responses"][str(status)] = {"description": TITLES[status], "content": {PROBLEM: answer}}
    return told


def content(shape: Shape, binary: bool) -> dict[str, Any]:
    """A body's types and their schemas."""
    if shape is None:
        return {TEXT: {"schema": {"type": "string"}}}
    names = [part.__name__ for part in getattr(shape, "__args__", [shape])]
    schemas = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    told = {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
    return told | ({BINARY: {"schema": {"type": "string", "format": "binary"}}} if binary else {})


@cache
def documentation() -> str:
    """The routes as one page of HTML that loads nothing."""
    rows = []
    for each in OPERATIONS:
        takes = html.escape(each.body.__doc__ or "") if each.body is not None else ""
        fields = ", ".join(getattr(each.body, "__struct_fields__", ()))
        rows.append(
            f"<tr><td><code>{each.method.upper()} {html.escape(each.path)}</code></td>"
            f"<td>{html.escape(each.summary)}</td><td>{takes} <code>{html.escape(fields)}</code></td></tr>"
        )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Attar: routes</title>'
        '<meta name="viewport" content="width=device-width">'
        "<style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui;margin:2rem auto;max-width:70rem;"
        "padding:0 1rem}td{padding:.4rem .8rem;vertical-align:top;border-top:1px solid #8884}</style>"
        "<h1>Routes</h1><p>Bodies are JSON; errors are problem objects (RFC 9457); "
        '<a href="/openapi.json">/openapi.json</a> has every field.</p>'
        f"<table>{''.join(rows)}</table></html>"
    )
