"""Handlers of the routes, for documents, questions and operators.

A handler takes the service, the request and, if its route has a body, its struct or the files. It returns the struct
that is its reply, a status and a struct, or a response.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import asdict
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import attar
from attar import wire
from attar.errors import FormatError, OptionError, UnknownDocumentError
from attar.library.drafts import Draft
from attar.progress import check_stopped
from attar.results import Change, Document, DocumentDetails, Subset, check_labels, paired
from attar.server.batching import AskJob, check_cost, check_length, work_of
from attar.server.jobs import LONG, LONG_FILE, RunningJob, add_drafts
from attar.server.metrics import READ_ONLY
from attar.server.problems import ProblemError
from attar.server.service import Service, Upload

_DOCUMENTS = f"{wire.DOCUMENTS}/".encode()
_APPEND = b"/append"

Query = TypeVar("Query", bound=msgspec.Struct)

encode = msgspec.json.Encoder().encode


async def ask(service: Service, request: Request, body: wire.Ask) -> wire.Answers | wire.ManyAnswers:
    """Answer one or many questions about one or many documents, or about all."""
    started = time.perf_counter()
    names, questions = _pairs(body)
    asks_all = _asks_all(body)
    _check_count("questions", questions, service.settings.max_questions)
    look = service.look_of(body.look)
    # A device answers a batch as fast as one question.
    on_device = service.library.has_bank and not body.within
    work = [1 if on_device else work_of(question, body.top, look, asks_all) for question in questions]
    check_cost(questions, body.top, work)
    if asks_all and not on_device:
        asked, about = await service.ask_all(questions, body.top, look, body.within, work)
    else:
        try:
            asked = await service.asks.ask(AskJob(names, questions, body.top, look, work, asks_all))
        except UnknownDocumentError as error:
            await service.raise_with_suggestions(names, error)
        seconds = time.perf_counter() - started
        about = wire.Searched(seconds=seconds, by_words=service.unsigned if asks_all else 0)
    service.metrics.count_questions(len(questions), to_all=asks_all)
    # A document that is asked several times is read once.
    read = sum({name: result.bytes for name, result in zip(names, asked, strict=True)}.values())
    if body.documents is None and body.questions is None:
        one = body.document, questions[0], asked[0].answers
        return wire.Answers(*one, read, **asdict(about))
    results = [
        wire.QuestionAnswers(name or None, question, result.answers)
        for name, question, result in zip(names, questions, asked, strict=True)
    ]
    return wire.ManyAnswers(results, read, **asdict(about))


def _asks_all(body: wire.Ask) -> bool:
    return body.document is None and body.documents is None


def _pairs(body: wire.Ask) -> tuple[list[str], list[str]]:
    """Documents' names and questions, of equal length; the names are empty if all documents are asked.

    >>> _pairs(wire.Ask(document="emma", questions=["Who left?", "Who came?"]))
    (['emma', 'emma'], ['Who left?', 'Who came?'])
    """
    questions = _one_or_many("question", body.question, body.questions)
    names = [""]
    if not _asks_all(body):
        names = _one_or_many("document", body.document, body.documents)
        if body.within:
            raise OptionError.expected("within", "no other document", "one", "name it in within")
    if not names or not questions:
        raise OptionError.expected("questions", "at least one, and a document", "none")
    return paired(names, questions)


def _one_or_many(word: str, one: str | None, many: list[str] | None) -> list[str]:
    """The values of a field that is given once or as a list."""
    if one is not None and many is None:
        return [one]
    if one is None and many is not None:
        return many
    raise OptionError.expected(word, f'"{word}" or "{word}s"', "neither" if one is None else "both")


async def list_answers(service: Service, request: Request, body: wire.ListAnswers) -> wire.AnswerList:
    """Find all places that answer a question, grouped by answer."""
    look = service.look_of(body.look)
    groups, about = await service.search(
        partial(service.library.list_answers, body.question, top=body.top, look=look, within=body.within)
    )
    service.metrics.count_questions(1, to_all=True)
    return wire.AnswerList(body.question, groups, **asdict(about))


async def search(service: Service, request: Request, body: wire.Search) -> wire.Hits:
    """Rank all documents by a query."""
    search_all = partial(
        service.library.search, body.query, top=body.top, within=body.within, passages=body.passages
    )
    hits, about = await service.search(search_all)
    return wire.Hits(body.query, hits, **asdict(about))


async def verify(service: Service, request: Request, body: wire.Verify) -> wire.Verification:
    """Tell whether documents say a sentence, word for word or with a few words changed, and where."""
    found, about = await service.search(partial(service.library.verify, body.quote, within=body.within))
    return wire.Verification(**asdict(found), quote=body.quote, **asdict(about))


async def list_documents(service: Service, request: Request) -> wire.Page:
    """List documents in the order of their names, starting after `after`; `next` is the `after` of the next page."""
    query, library = query_of(request, wire.ListQuery), service.library
    within = Subset(query.names, query.folder, query.tags, query.since) or None

    def read() -> tuple[list[Document], int]:
        # One more than asked for shows whether there is a next page.
        limit, after = query.limit + 1, query.after or None
        if not query.contains:
            return [*library.documents(after=after, limit=limit, within=within)], len(library)
        fits = partial(_contains, query.contains.lower())
        return [*islice(filter(fits, library.documents(after=after, within=within)), limit)], len(library)

    (documents, total), missing = await service.read(read)
    following = documents[query.limit - 1].name if len(documents) > query.limit else None
    return wire.Page(documents[: query.limit], following, total, missing)


def _contains(wanted: str, document: Document) -> bool:
    check_stopped()
    return wanted in document.name.lower() or wanted in document.title.lower()


async def show_document(service: Service, request: Request) -> DocumentDetails:
    """Show a document with its text."""
    name = _document_name(request)
    shown, _ = await service.read(lambda: service.library.show(name))
    return shown


async def put_document(
    service: Service, request: Request, body: wire.PutDocument
) -> tuple[int, Change] | Response:
    """Add or replace a document: 201 if the name is new, 200 if not; a long text becomes a job."""
    name = _document_name(request)
    check_length("text", len(body.text), service.settings.max_text)
    draft = Draft.of(name, body.text, body.title, body.tags, body.metadata)
    if _wants_job(request, len(body.text)):
        return _accepted(service, name, lambda job: add_drafts(service.library, [draft], body.replace, job))
    (change,) = await service.writes.run(partial(service.library.add_many, [draft], replace=body.replace))
    return 201 if change.change == "added" else 200, change


async def append_text(service: Service, request: Request, body: wire.AppendText) -> Change | Response:
    """Append text to a document; a repeated request with the same `Idempotency-Key` changes nothing."""
    name, key = _document_name(request), _idempotency_key(request)
    check_length("text", len(body.text), service.settings.max_text)
    append = partial(service.library.append, name, body.text, key=key)

    def run(job: RunningJob) -> None:
        job.add(append(progress=lambda what, done, total: job.progress(done, total)))

    if _wants_job(request, len(body.text)):
        return _accepted(service, name, run)
    return await service.writes.run(append)


async def add_files(service: Service, request: Request, body: list[Upload]) -> wire.Changes | Response:
    """Add the documents of files; the ones before a refused one are added. What takes long becomes a job."""
    query = query_of(request, wire.FileQuery)
    replace, tags = query.replace == "1", query.tags or None
    what = body[0].name if len(body) == 1 else f"{len(body)} files"
    check_labels(query.tags, {})
    read = partial(service.read_files, body, tags=tags, source=query.source)
    if not _wants_job(request, sum(len(file.data) for file in body), LONG_FILE):
        drafts = await service.slow.run(read)
        if sum(len(draft.text) for draft in drafts) <= LONG:
            add = partial(service.library.add_many, drafts, replace=replace)
            return wire.Changes(await service.writes.run(add))
        return _accepted(service, what, lambda job: add_drafts(service.library, drafts, replace, job))
    return _accepted(service, what, lambda job: add_drafts(service.library, read(in_job=True), replace, job))


async def list_jobs(service: Service, request: Request) -> wire.JobList:
    """List the jobs that wait or run, and those that ended in the last minutes."""
    return wire.JobList(await service.status.run(service.jobs.all))


async def show_job(service: Service, request: Request) -> wire.Job:
    """Show how far a job is."""
    return service.jobs.get(request.path_params["id"])


async def cancel_job(service: Service, request: Request) -> wire.Job:
    """Stop a job soon; documents that it has added stay, and one that has ended is left as it is."""
    return service.jobs.cancel(request.path_params["id"])


async def status(service: Service, request: Request) -> wire.Status:
    """Show the size of the library, and what the server is doing."""
    stats = await service.status.run(service.library.stats)
    look = service.look_of(None)
    return wire.Status(
        version=attar.__version__,
        reader=stats.reader or "",
        read_only=service.settings.read_only or request.scope.get(READ_ONLY, False),
        documents=stats.documents,
        memory_bytes=stats.memory_bytes,
        file_bytes=stats.file_bytes,
        questions=service.metrics.questions(),
        signatures=service.signing,
        look=await service.status.run(lambda: service.library.default_look) if look is None else look,
    )


async def merge_documents(service: Service, request: Request, body: wire.Merge) -> Change:
    """Make one document of several, which stay."""
    _check_count("documents", body.documents, service.settings.max_questions)
    key, library = _idempotency_key(request), service.library
    return await service.writes.run(
        lambda: library.merge(body.new, body.documents, title=body.title, replace=body.replace, key=key)
    )


async def remove_documents(service: Service, request: Request, body: wire.Remove) -> Response:
    """Remove documents: all of them, or none if one does not exist."""
    _check_count("documents", body.documents, service.settings.max_questions)
    await service.writes.run(partial(service.library.remove, *body.documents))
    return Response(status_code=204)


async def tag_documents(service: Service, request: Request, body: wire.Tag) -> Response:
    """Add tags to documents and take others away: of all of them, or of none if one does not exist."""
    _check_count("documents", body.documents, service.settings.max_questions)
    await service.writes.run(partial(service.library.tag, *body.documents, add=body.add, remove=body.remove))
    return Response(status_code=204)


async def remove_document(service: Service, request: Request) -> Response:
    """Remove a document."""
    name = _document_name(request)
    await service.writes.run(partial(service.library.remove, name))
    return Response(status_code=204)


async def health(service: Service, request: Request) -> Response:
    """Whether the process is alive."""
    return PlainTextResponse("alive\n")


async def readiness(service: Service, request: Request) -> Response:
    """Whether the reader is loaded, and the library can be read and written."""
    if not service.ready:
        raise ProblemError(503, "the server is starting")
    await service.status.run(service.check)
    line, made = "ready\n", service.signing
    if made is not None:
        line += f"signatures: {made.done} of {made.total} made; others are found by words\n"
    return PlainTextResponse(line)


async def metrics(service: Service, request: Request) -> Response:
    """Metrics for Prometheus."""
    text = await service.status.run(lambda: service.metrics.text(service.library.stats()))
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _wants_job(request: Request, size: int, long: int = LONG) -> bool:
    """Whether a change is made by a job: because it is long, or because the client prefers it (RFC 7240)."""
    return size > long or "respond-async" in request.headers.get("prefer", "")


def _accepted(service: Service, what: str, work: Callable[[RunningJob], None]) -> Response:
    """The response to a change that became a job."""
    job = service.jobs.submit(what, work)
    headers = {"location": f"{service.settings.prefix}{wire.JOBS}/{job.id}"}
    return Response(encode(job), 202, headers, wire.JSON)


def _document_name(request: Request) -> str:
    """The name in the path: any character may be percent-encoded, slashes need not be."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    written = raw.partition(b"?")[0].removeprefix(_DOCUMENTS)
    if request.method == "POST":
        # A name may end with an encoded "/append"; only a plain one belongs to the route.
        if not written.endswith(_APPEND):
            raise HTTPException(405, headers={"allow": "PUT, GET, DELETE"})
        written = written.removesuffix(_APPEND)
    try:
        name = unquote_to_bytes(written).decode()
    except UnicodeDecodeError as error:
        raise FormatError.expected("name", "percent-encoded UTF-8", "other bytes") from error
    if len(name) > wire.MAX_NAME:
        raise OptionError.expected("name", f"at most {wire.MAX_NAME:,} characters", f"{len(name):,}")
    return name


def _idempotency_key(request: Request) -> str | None:
    """The key by which a repeated change is recognised, if the client sent one."""
    return request.headers.get(wire.KEY_HEADER)


def query_of(request: Request, shape: type[Query]) -> Query:
    """The query string as a struct; a parameter that may be given several times is a tuple there."""
    given = {}
    for field in msgspec.structs.fields(shape):
        if values := request.query_params.getlist(field.encode_name):
            given[field.encode_name] = values if field.default == () else values[-1]
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(422, f"query: {error}") from None


def _check_count(what: str, values: Sequence[object], limit: int) -> None:
    """Refuse more than `limit` values in one request."""
    if len(values) > limit:
        remedy = "split them over several requests"
        raise OptionError.expected(what, f"at most {limit:,} per request", f"{len(values):,}", remedy)
