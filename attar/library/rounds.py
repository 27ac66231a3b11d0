"""Searching and asking all documents in rounds, the same over one store and over shards: `parts` of a library.

A round asks each part about its own documents, with what the rounds before found of all documents. So scores,
probabilities and their order do not depend on how a library is split; documents and memories stay where they are. A
generator yields rounds and is sent the replies; who runs it decides how parts are reached.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from attar.errors import DtypeError, FormatError, OptionError, quoted
from attar.results import ABSENT, Answer, Hit, Sentence
from attar.search.ranking import RERANKED, Common, Ranked, SearchQuery, rerank
from attar.search.scan import CANDIDATES

if TYPE_CHECKING:
    from attar.reader.answers import Shares
    from attar.reader.confidence import Calibration

# Documents whose phrases answer a question to all, and how much a document's score adds to those of its phrases.
# Chosen on questions of SQuAD's training set (docs/log.md).
_ASKED, _BIAS = 10, 0.8

# Questions whose rounds are run together: each keeps the scores of all documents until its last round.
TOGETHER = 16

# As over HTTP: a question is read like a text.
_LONGEST = 10_000

# How often a question starts again because another process refits the library at that moment.
_REFITTED = 2

Result = TypeVar("Result")


class OtherStatisticsError(OptionError):
    """A query was made with other statistics than the signatures: of another shard, or just refitted."""


class Round(NamedTuple):
    """A method of `SearchPart`, with arguments for all parts, or for each part that is asked.

    The replies are those of all parts in order, or by the number of the part. With `any_part` one part is asked: its
    reply is the only one.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    by_part: Mapping[int, tuple[Any, ...]] | None = None
    any_part: bool = False


Rounds = Generator[Round, Any, Result]


class Found(NamedTuple):
    """A document that search found: the number of its part, its name and its score."""

    part: int
    name: str
    score: float


class Scored(NamedTuple):
    """What a part replies about the phrases of its documents: None for one that is damaged or gone."""

    log_sums: list[float | None]
    null: float
    calibration: "Calibration | None"


class Sentences(NamedTuple):
    """A document's title, and its sentences that fit best."""

    title: str
    sentences: list[Sentence]


def check_top(top: object) -> None:
    """Refuse what is no number of answers or documents."""
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise OptionError.expected("top", "an integer of at least 1", repr(top))


_PUNCTUATION = str.maketrans("", "", "?!.,;:…¿¡")


def check_asked(what: str, text: str) -> None:
    """Refuse a question or query of blanks and punctuation only.

    >>> check_asked("question", " ?")
    Traceback (most recent call last):
    attar.errors.FormatError: question: expected some words, got ' ?'
    """
    if not text.translate(_PUNCTUATION).strip():
        raise FormatError.expected(what, "some words", quoted(text) if text.strip() else "nothing")


def search_rounds(query: str, top: int) -> Rounds[list[Hit]]:
    """The best documents with their best sentences."""
    check_top(top)
    check_asked("query", query)
    found = yield from _found(query, max(top, RERANKED))
    matches: dict[int, list[float | None]] = yield _round("match", found[:RERANKED], query)
    matched = [(each, match) for each, match in _in_order(found[:RERANKED], matches) if match is not None]
    found = [each for each, _ in matched] + found[RERANKED:]
    order = rerank([each.score for each in found], [match for _, match in matched])
    fitted = [(found[at], score) for at, score in order][:top]
    shown = yield _round("sentences", [each for each, _ in fitted], query)
    told = _in_order([each for each, _ in fitted], shown)
    return [
        Hit(each.name, own.title, score, own.sentences)
        for (each, score), (_, own) in zip(fitted, told, strict=True)
        if own is not None
    ]


def ask_rounds(question: str, top: int | None) -> Rounds[list[Answer]]:
    """The best answers of the best documents."""
    if top is not None:
        check_top(top)
    check_asked("question", question)
    found = yield from _found(question, _ASKED)
    scored: dict[int, Scored] = {}
    while found:
        biases = [_BIAS * (each.score - found[0].score) for each in found]
        scored = yield _round("score", found, question, biases=biases)
        sums = _in_order(found, {part: each.log_sums for part, each in scored.items()})
        found = [each for each, own in sums if own is not None]
        if len(found) == len(sums):
            break
    if not found:
        return [Answer("", 1.0, ABSENT)]
    from attar.reader.answers import combined, total_of

    null, calibration = next((each.null, each.calibration) for each in scored.values())
    total = total_of(null, [own for _, own in sums if own is not None])
    replies: dict[int, list[Shares | None]] = yield _round(
        "shares", found, question, biases=biases, more=(total, top)
    )
    shares = [(each, own) for each, own in _in_order(found, replies) if own is not None]
    lists, absent, refused = combined([own for _, own in shares], float(np.exp(null - total)), calibration)
    answers = [
        msgspec.structs.replace(answer, document=each.name)
        for (each, _), own in zip(shares, lists, strict=True)
        for answer in own
    ]
    answers.sort(key=lambda answer: -answer.probability)
    place = sum(answer.probability > absent for answer in answers)
    answers.insert(0 if refused else max(place, min(1, len(answers))), Answer("", absent, ABSENT))
    return answers[:top]


def _found(text: str, count: int) -> Rounds[list[Found]]:
    """The best documents, best first."""
    if not isinstance(text, str):
        raise DtypeError.expected("question", "a string", type(text).__name__)
    if len(text) > _LONGEST:
        came = f"{len(text):,} characters"
        raise FormatError.expected("question", f"at most {_LONGEST:,} characters", came, "shorten it")
    query: SearchQuery = yield Round("query", (text,), any_part=True)
    common = Common(reduce(add, (yield Round("corpus", (query,)))))
    if not common.corpus.documents:
        return []
    words, near = zip(*(yield Round("moments", (query, common))), strict=True)
    common = replace(common, words=reduce(add, words), near=reduce(add, near))
    if common.is_rounded and query.signature.any():
        highest = np.concatenate((yield Round("nearest", (query, common))))
        least = -np.partition(-highest, CANDIDATES - 1)[CANDIDATES - 1]
        common = replace(common, least=float(least))
        common = replace(common, exact=reduce(add, (yield Round("exact", (query, common)))))
    best: list[list[Ranked]] = yield Round("best", (query, common, count))
    ranked = [(-each.score, each.key, part, each.name) for part, own in enumerate(best) for each in own]
    return [Found(part, name, -score) for score, _, part, name in sorted(ranked)[:count]]


def _round(
    method: str,
    found: Sequence[Found],
    text: str,
    biases: Sequence[float] | None = None,
    more: tuple[Any, ...] = (),
) -> Round:
    """A round about documents, each asked of the part that has it."""
    arguments: dict[int, tuple[Any, ...]] = {}
    for at, each in enumerate(found):
        names, own = arguments.setdefault(each.part, ([], []))
        names.append(each.name)
        own.append(0.0 if biases is None else biases[at])
    with_biases = biases is not None
    by_part = {
        part: (text, names, *([own] if with_biases else []), *more)
        for part, (names, own) in arguments.items()
    }
    return Round(method, by_part=by_part)


def _in_order(found: Sequence[Found], replies: Mapping[int, Iterable[Result]]) -> list[tuple[Found, Result]]:
    """Documents with the replies of their parts, which are in the same order."""
    waiting = {part: iter(own) for part, own in replies.items()}
    return [(each, next(waiting[each.part])) for each in found]


def run_rounds(rounds: Rounds[Result], part: Any) -> Result:
    """Run rounds over a library of one part."""
    return run_many([rounds], part)[0]


def run_many(several: Sequence[Rounds[Result]], part: Any) -> list[Result]:
    """Run the rounds of some questions in step over a library of one part."""
    results: dict[int, Result] = {}
    replies: list[Any] = [None] * len(several)
    while len(results) < len(several):
        steps: dict[int, Round] = {}
        for at, rounds in enumerate(several):
            if at not in results:
                try:
                    steps[at] = rounds.send(replies[at])
                except StopIteration as done:
                    results[at] = done.value
        scan_together(part, ((step.method, step.arguments) for step in steps.values()))
        for at, (method, arguments, by_part, any_part) in steps.items():
            call = getattr(part, method)
            if by_part is not None:
                replies[at] = {number: call(*own) for number, own in by_part.items()}
            else:
                replies[at] = call(*arguments) if any_part else [call(*arguments)]
    return [results[at] for at in range(len(several))]


def run_again(make: Callable[[], Sequence[Rounds[Result]]], part: Any) -> list[Result]:
    """Run rounds over a library of one part, from the start if its statistics are refitted meanwhile."""
    for _ in range(_REFITTED):
        with contextlib.suppress(OtherStatisticsError):
            return run_many(make(), part)
    return run_many(make(), part)


def scan_together(part: Any, calls: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    """Compare the queries of a round's calls with the signatures of a part together, before it replies to each."""
    asked = [arguments for method, arguments in calls if method == "moments"]
    if len(asked) > 1:
        part.scan(asked)
