"""Routes of documents: put, append, list, show, remove."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from attar.errors import OptionError
from attar.server import requests
from attar.server.picture import picture_of
from attar.server.service import Service
from attar.wire import AppendText, Merge, Page, PutDocument, Remove, ShownDocument

PUT, APPEND = msgspec.json.Decoder(PutDocument), msgspec.json.Decoder(AppendText)
MERGE, REMOVE = msgspec.json.Decoder(Merge), msgspec.json.Decoder(Remove)
PAGE, LARGEST_PAGE = 100, 1_000
LONGEST_TITLE = 1_000


async def put_document(service: Service, request: Request) -> Response:
    """Read a text and keep its memory under the name: 201 if it is new, 200 if it was there."""
    name, body = requests.name_of(request), await requests.body_of(request, PUT)
    requests.check_length("text", body.text, service.settings.max_text)
    requests.check_length("title", body.title, LONGEST_TITLE)
    change = await service.put(name, body.text, body.title, body.replace)
    return requests.respond(change, 201 if change.change == "added" else 200)


async def append_text(service: Service, request: Request) -> Response:
    """Read on: the text comes after what the document has."""
    name, body = requests.name_of(request), await requests.body_of(request, APPEND)
    requests.check_length("text", body.text, service.settings.max_text)
    return requests.respond(await service.append(name, body.text))


async def merge_documents(service: Service, request: Request) -> Response:
    """Make one document of several, which stay."""
    body = await requests.body_of(request, MERGE)
    requests.check_length("title", body.title, LONGEST_TITLE)
    requests.check_count("documents", body.documents, service.settings.max_questions)
    return requests.respond(await service.merge(body.new, body.documents, body.title, body.replace))


async def remove_documents(service: Service, request: Request) -> Response:
    """Remove documents: all of them, or none if one does not exist."""
    body = await requests.body_of(request, REMOVE)
    requests.check_count("documents", body.documents, service.settings.max_questions)
    await service.remove(*body.documents)
    return Response(status_code=204)


async def list_documents(service: Service, request: Request) -> Response:
    """Documents in the order of their names, those behind `after`; `next` is the `after` of the next page."""
    limit = requests.whole_number(request, "limit", PAGE, LARGEST_PAGE)
    after = request.query_params.get("after") or None
    # One more than is asked for tells whether there is more.
    library = service.library
    found, total = await service.aside(
        lambda: (list(library.documents(after=after, limit=limit + 1)), len(library))
    )
    behind = found[limit - 1].name if len(found) > limit else None
    return requests.respond(Page(found[:limit], behind, total))


async def show_document(service: Service, request: Request) -> Response:
    """What is kept of a document; with `memory=1` its memory's numbers too."""
    name, pictured = requests.name_of(request), request.query_params.get("memory", "0")
    if pictured not in ("0", "1"):
        raise OptionError("memory", "0 or 1", repr(pictured[:20]))
    shown = ShownDocument(**msgspec.structs.asdict(await service.aside(lambda: service.library.show(name))))
    if pictured == "1":
        picture = await service.aside(lambda: picture_of(service.library.memory(name)))
        shown = msgspec.structs.replace(shown, memory=picture)
    return requests.respond(shown)


async def remove_document(service: Service, request: Request) -> Response:
    """Take a document out."""
    await service.remove(requests.name_of(request))
    return Response(status_code=204)
