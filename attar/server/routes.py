"""Handlers of the routes, for documents, questions and operators; each returns the struct that is its reply."""

import time

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from attar import wire
from attar.library.drafts import Draft, read_upload
from attar.results import Change, DocumentDetails
from attar.server import requests
from attar.server.backend import AskJob
from attar.server.problems import ProblemError
from attar.server.service import Service

PAGE_SIZE, MAX_PAGE_SIZE = 100, 1_000
# Bytes that a file may have when it is decompressed, at least: its pictures count too.
_DECOMPRESSED = 2**26


async def put_document(service: Service, request: Request, body: wire.PutDocument) -> tuple[int, Change]:
    """Add or replace a document: 201 if the name is new, 200 if not."""
    name = requests.document_name(request)
    requests.check_length("text", len(body.text), service.settings.max_text)
    outcome = await service.write(lambda: service.backend.add(name, body.text, body.title, body.replace))
    return 201 if outcome.change == "added" else 200, outcome


async def append_text(service: Service, request: Request, body: wire.AppendText) -> Change:
    """Append text to a document; a repeated request with the same `Idempotency-Key` changes nothing."""
    name = requests.document_name(request)
    requests.check_length("text", len(body.text), service.settings.max_text)
    key = requests.idempotency_key(request)
    return await service.write(lambda: service.backend.append(name, body.text, key))


async def add_file(service: Service, request: Request, body: bytes) -> wire.Changes:
    """Add the documents of one file; the ones before a refused one are added."""
    name, replace = requests.file_name(request), requests.query_flag(request, "replace")
    most = service.settings.max_text

    def read() -> list[Draft]:
        drafts, characters = [], 0
        for draft in read_upload(name, body, max(_DECOMPRESSED, 4 * most)):
            characters += len(draft.text)
            # Of all documents together: an archive of some kilobytes can hold any number of long ones.
            requests.check_length("texts of the file", characters, most)
            drafts.append(draft)
        return drafts

    drafts = await service.run_slow(read)
    return wire.Changes(await service.write(lambda: service.backend.add_many(drafts, replace)))


async def merge_documents(service: Service, request: Request, body: wire.Merge) -> Change:
    """Make one document of several, which stay."""
    requests.check_count("documents", body.documents, service.settings.max_questions)
    key = requests.idempotency_key(request)
    return await service.write(lambda: service.backend.merge(body, key))


async def remove_documents(service: Service, request: Request, body: wire.Remove) -> Response:
    """Remove documents: all of them, or none if one does not exist."""
    requests.check_count("documents", body.documents, service.settings.max_questions)
    await service.write(lambda: service.backend.remove(body.documents))
    return Response(status_code=204)


async def list_documents(service: Service, request: Request) -> wire.Page:
    """List documents in the order of their names, starting after `after`; `next` is the `after` of the next page."""
    limit = requests.query_number(request, "limit", PAGE_SIZE, MAX_PAGE_SIZE)
    after = request.query_params.get("after") or None
    # One more than asked for shows whether there is a next page.
    (found, total), missing = await service.read(lambda: service.backend.page(after, limit + 1))
    after = found[limit - 1].name if len(found) > limit else None
    return wire.Page(found[:limit], after, total, missing)


async def show_document(service: Service, request: Request) -> DocumentDetails:
    """Show a document with its text."""
    name = requests.document_name(request)
    return await service.read(lambda: service.backend.show(name))


async def remove_document(service: Service, request: Request) -> Response:
    """Remove a document."""
    name = requests.document_name(request)
    await service.write(lambda: service.backend.remove([name]))
    return Response(status_code=204)


async def ask(service: Service, request: Request, body: wire.Ask) -> wire.Answers | wire.ManyAnswers:
    """Answer one or many questions about one or many documents, or about all."""
    started = time.perf_counter()
    names, questions = body.pairs()
    requests.check_count("questions", questions, service.settings.max_questions)
    missing: list[str] = []
    if body.asks_all:
        (answers, missing), read = await service.ask_all(questions, body.top), 0
    else:
        answers, read = await service.ask(AskJob(names, questions, body.top))
    seconds = time.perf_counter() - started
    about = [name or None for name in names]
    if body.single:
        return wire.Answers(about[0], questions[0], answers[0], seconds, read, missing)
    results = [wire.Result(*each) for each in zip(about, questions, answers, strict=True)]
    return wire.ManyAnswers(results, seconds, read, missing)


async def search(service: Service, request: Request, body: wire.Search) -> wire.Hits:
    """Rank all documents by a query."""
    started = time.perf_counter()
    hits, missing = await service.search(body.query, body.top)
    return wire.Hits(body.query, hits, time.perf_counter() - started, missing)


async def health(service: Service, request: Request) -> Response:
    """Whether the process is alive."""
    return PlainTextResponse("alive\n")


async def readiness(service: Service, request: Request) -> Response:
    """Whether the reader is loaded, and the store can be read and written."""
    if not service.ready:
        raise ProblemError(
            503, "server: expected a loaded reader and an open store, got a server that starts"
        )
    await service.stats()
    await service.check_disk()
    return PlainTextResponse("ready\n")


async def metrics(service: Service, request: Request) -> Response:
    """Metrics for Prometheus."""
    return Response(await service.metrics_text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
