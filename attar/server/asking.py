"""Routes of questions: ask, look up, explain, compare."""

import time

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from attar.client import vectors
from attar.errors import OptionError
from attar.server import bodies, requests
from attar.server.lookups import LookupJob
from attar.server.passage import Passage
from attar.server.questions import AskJob
from attar.server.service import Service

ASK, LOOKUP = msgspec.json.Decoder(bodies.Ask), msgspec.json.Decoder(bodies.Lookup)
EXPLAIN, COMPARE = msgspec.json.Decoder(bodies.Explain), msgspec.json.Decoder(bodies.Compare)
PACKED = vectors.MEDIA.encode()
# A question is a sentence.
LONGEST_QUESTION = 10_000


async def ask(service: Service, passage: Passage) -> None:
    """Answer one question, or many."""
    body = await requests.body_of(passage, ASK)
    names, questions = body.pairs()
    requests.check_count("questions", questions, service.settings.max_questions)
    for question in questions:
        requests.check_length("question", question, LONGEST_QUESTION)
    began = time.perf_counter()
    found = await service.ask(AskJob(names, questions, body.top))
    seconds = time.perf_counter() - began
    answers = [bodies.named_answers(each) for each in found.answers]
    told: bodies.Answers | bodies.ManyAnswers
    if body.single:
        told = bodies.Answers(names[0], questions[0], answers[0], seconds, found.bytes)
    else:
        results = [bodies.Result(*each) for each in zip(names, questions, answers, strict=True)]
        told = bodies.ManyAnswers(results, seconds, found.bytes)
    await passage.answer(requests.encode(told), requests.JSON_BYTES)


async def lookup(service: Service, passage: Passage) -> None:
    """Look raw vectors up, as JSON or packed (`attar.client.vectors` has the layout)."""
    if requests.media_of(passage) == vectors.MEDIA:
        await lookup_packed(service, passage)
        return
    body = await requests.body_of(passage, LOOKUP)
    names, numbers = body.pairs()
    requests.check_count("vectors", numbers, service.settings.max_questions)
    queries = requests.floats_of(numbers)
    began = time.perf_counter()
    # Documents may have as many names as they like: each readout has its own width.
    read = await service.look_up(LookupJob(names, queries, packed=False))
    seconds = time.perf_counter() - began
    readouts = [readout.tolist() for readout in read.readouts]
    told: bodies.Readout | bodies.Readouts
    if body.single:
        told = bodies.Readout(names[0], readouts[0], seconds, read.bytes)
    else:
        told = bodies.Readouts(readouts, seconds, read.bytes)
    await passage.answer(requests.encode(told), requests.JSON_BYTES)


async def lookup_packed(service: Service, passage: Passage) -> None:
    """Look packed vectors up; all readouts have one width, that of the widest."""
    names, queries = vectors.unpack_queries(await passage.body(), service.settings.max_questions)
    requests.check_finite(queries)
    read = await service.look_up(LookupJob(names, queries, packed=True))
    await passage.answer(vectors.pack_readouts(np.asarray(read.readouts)), PACKED)


async def explain(service: Service, request: Request) -> Response:
    """The weight of each token of a text, or of a document whose text is kept, for a question."""
    body = await requests.body_of(request, EXPLAIN)
    if (body.text is None) == (body.document is None):
        raise OptionError("explain", '"text" or "document"', "neither" if body.text is None else "both")
    requests.check_length("question", body.question, LONGEST_QUESTION)
    requests.check_length("text", body.text or "", service.settings.max_text)
    began = time.perf_counter()

    def work() -> bodies.Explanation:
        text = service.text_of(body.document) if body.document is not None else body.text or ""
        told = service.library.reader.explain(text, body.question)
        answers = bodies.named_answers(told.answers)
        return bodies.Explanation(told.tokens, told.weights, answers, time.perf_counter() - began)

    return requests.respond(await service.aside(work))


async def compare(service: Service, request: Request) -> Response:
    """What a lookup in the document's memory takes, and one by softmax over as many states: both measured now."""
    body = await requests.body_of(request, COMPARE)
    return requests.respond(await service.aside(lambda: service.compare(body.document)))
