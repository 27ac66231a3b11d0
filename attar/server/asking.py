"""Routes of questions: ask, look up, explain, compare."""

import time
from functools import partial

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from attar import wire
from attar.errors import OptionError
from attar.server import requests
from attar.server.lookups import LookupJob, Read
from attar.server.passage import Passage
from attar.server.questions import AskJob, Found
from attar.server.service import Service
from attar.server.shortcut import Begun

ASK, LOOKUP = msgspec.json.Decoder(wire.Ask), msgspec.json.Decoder(wire.Lookup)
EXPLAIN, COMPARE = msgspec.json.Decoder(wire.Explain), msgspec.json.Decoder(wire.Compare)
PACKED = wire.MEDIA.encode()
# A question is a sentence.
LONGEST_QUESTION = 10_000


async def ask(service: Service, passage: Passage) -> None:
    """Answer one question, or many."""
    body = await requests.body_of(passage, ASK)
    job, began = ask_job(service, body), time.perf_counter()
    told = tell_answers(body, job, began, await service.ask(job))
    await passage.answer(told, requests.JSON_BYTES)


def ask_shortly(service: Service, body: bytes | bytearray) -> Begun:
    """Begin what `ask` answers."""
    asked = ASK.decode(body)
    job, began = ask_job(service, asked), time.perf_counter()
    tell = partial(tell_answers, asked, job, began)
    return Begun(service.begin_ask(job), tell, partial(service.refuse, job.names))


def ask_job(service: Service, body: wire.Ask) -> AskJob:
    """The questions that a body asks, if they may be."""
    names, questions = body.pairs()
    requests.check_count("questions", questions, service.settings.max_questions)
    for question in questions:
        requests.check_length("question", question, LONGEST_QUESTION)
    return AskJob(names, questions, body.top)


def tell_answers(body: wire.Ask, job: AskJob, began: float, found: Found) -> bytes:
    """The answers as JSON."""
    seconds = time.perf_counter() - began
    answers = found.answers
    told: wire.Answers | wire.ManyAnswers
    if body.single:
        told = wire.Answers(job.names[0], job.questions[0], answers[0], seconds, found.bytes)
    else:
        results = [wire.Result(*each) for each in zip(job.names, job.questions, answers, strict=True)]
        told = wire.ManyAnswers(results, seconds, found.bytes)
    return requests.encode(told)


async def lookup(service: Service, passage: Passage) -> None:
    """Look raw vectors up, as JSON or packed (`attar.wire` has the layout)."""
    if requests.media_of(passage) == wire.MEDIA:
        await lookup_packed(service, passage)
        return
    body = await requests.body_of(passage, LOOKUP)
    job, began = lookup_job(service, body), time.perf_counter()
    told = tell_readouts(body, job, began, await service.look_up(job))
    await passage.answer(told, requests.JSON_BYTES)


def look_up_shortly(service: Service, body: bytes | bytearray) -> bytes | Begun:
    """What `lookup` answers to JSON, or its beginning."""
    asked = LOOKUP.decode(body)
    job, began = lookup_job(service, asked), time.perf_counter()
    read = service.look_up_at_once(job)
    if read is not None:
        return tell_readouts(asked, job, began, read)
    tell = partial(tell_readouts, asked, job, began)
    return Begun(service.begin_look_up(job), tell, partial(service.refuse, job.names))


def lookup_job(service: Service, body: wire.Lookup) -> LookupJob:
    """The vectors that a body brings, if they can be looked up."""
    names, numbers = body.pairs()
    requests.check_count("vectors", numbers, service.settings.max_questions)
    # Documents may have as many names as they like: each readout has its own width.
    return LookupJob(names, requests.floats_of(numbers), packed=False)


def tell_readouts(body: wire.Lookup, job: LookupJob, began: float, read: Read) -> bytes:
    """The readouts as JSON."""
    seconds = time.perf_counter() - began
    readouts = [readout.tolist() for readout in read.readouts]
    told: wire.Readout | wire.Readouts
    if body.single:
        told = wire.Readout(job.names[0], readouts[0], seconds, read.bytes)
    else:
        told = wire.Readouts(readouts, seconds, read.bytes)
    return requests.encode(told)


async def lookup_packed(service: Service, passage: Passage) -> None:
    """Look packed vectors up; all readouts have one width, that of the widest."""
    names, queries = wire.unpack_queries(await passage.body(), service.settings.max_questions)
    requests.check_finite(queries)
    read = await service.look_up(LookupJob(names, queries, packed=True))
    await passage.answer(wire.pack_readouts(np.asarray(read.readouts)), PACKED)


async def explain(service: Service, request: Request) -> Response:
    """The weight of each token of a text, or of a document whose text is kept, for a question."""
    body = await requests.body_of(request, EXPLAIN)
    if (body.text is None) == (body.document is None):
        raise OptionError("explain", '"text" or "document"', "neither" if body.text is None else "both")
    requests.check_length("question", body.question, LONGEST_QUESTION)
    requests.check_length("text", body.text or "", service.settings.max_text)
    began = time.perf_counter()

    def work() -> wire.Explanation:
        text = service.text_of(body.document) if body.document is not None else body.text or ""
        told = service.library.reader.explain(text, body.question)
        answers = told.answers
        return wire.Explanation(told.tokens, told.weights, answers, time.perf_counter() - began)

    return requests.respond(await service.aside(work))


async def compare(service: Service, request: Request) -> Response:
    """What a lookup in the document's memory takes, and one by softmax over as many states: both measured now."""
    body = await requests.body_of(request, COMPARE)
    return requests.respond(await service.aside(lambda: service.compare(body.document)))
