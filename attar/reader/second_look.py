"""A second look: the sentences that a memory found are read again, together with the question.

The memory finds the right sentence far more often than the right words in it. A small network reads the question with
the best one to five sentences, whatever the length of the text, and says which words answer it, and whether any do.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.progress import check_stopped, one_thread
from attar.reader.fast_spans import Pieces, Spans
from attar.text.pieces import PieceTokenizer

# The longest question and answer, in pieces, as in training.
_QUESTION = 48
_ANSWER = 32
# Of a long sentence this many characters around its likeliest phrase are read.
_CHARACTERS = 800
# Pieces that are read at a time: their states stay in the caches.
_BATCH = 1_024
_ENDED = re.compile(r"[.!?:;…][\"'”’)\]]*\s*\Z")


class FoundSentence(NamedTuple):
    """A sentence that a memory found for a question, and its likeliest phrase.

    `score` ranks sentences, also of several documents; `share` is the logarithm of the phrase's probability among all
    phrases and "no answer". Starts and ends are characters of the document; `document` is its name, where several are
    asked, and `place` where the sentence stands in the document's file. `context` is what stands above it: titles and
    headings, which are read, too, but do not answer.
    """

    start: int
    text: str
    score: float
    share: float
    phrase_start: int
    phrase_end: int
    document: str | None = None
    place: str | None = None
    context: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class FoundSpan(NamedTuple):
    """The best span of a sentence: the sentence, its characters, and the logarithm of its probability.

    The probability is P(start) · P(end), among the pieces of all sentences that were read.
    """

    sentence: FoundSentence
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        return self.sentence.text[self.start - self.sentence.start : self.end - self.sentence.start]


class Look(NamedTuple):
    """The best span of each sentence that was read, best first, and the log-odds that there is an answer."""

    spans: list[FoundSpan]
    present: float


class _Part(NamedTuple):
    """What is read of a sentence: its pieces, and their characters in the document.

    `above` are the pieces of its context, `after` those between it and the next sentence: they do not answer.
    """

    sentence: FoundSentence
    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    above: NDArray[np.int64]
    after: NDArray[np.int64]

    @property
    def read(self) -> NDArray[np.int64]:
        return np.concatenate((self.above, self.ids, self.after))

    @property
    def answers(self) -> NDArray[np.bool_]:
        """Which of the pieces that are read are of the sentence itself."""
        places = np.arange(len(self.above) + len(self.ids) + len(self.after)) - len(self.above)
        return (places >= 0) & (places < len(self.ids))


class SpanReader(Protocol):
    """`FastSpans`, or a network on a device."""

    longest: int

    def read(self, inputs: Sequence[Pieces]) -> list[Spans]: ...


class SecondLook:
    """Reads questions with sentences, about `together` pieces at a time; an answer depends on its own alone."""

    def __init__(self, network: SpanReader, tokenizer: PieceTokenizer, together: int = _BATCH) -> None:
        self._network, self._tokenizer, self._together = network, tokenizer, together
        ((self._stop, _),) = tokenizer.read_sentences(["."])

    def read(
        self, questions: Sequence[str], sentences: Sequence[Sequence[FoundSentence]]
    ) -> list[Look | None]:
        """What is found in the sentences of each question; None without any."""
        looks: list[Look | None] = [None] * len(questions)
        asked = [at for at, found in enumerate(sentences) if found]
        pieces = self._tokenizer.read_questions([questions[at] for at in asked])
        batch: list[tuple[int, Pieces, list[_Part]]] = []
        length = 0
        for at, question in zip(asked, pieces, strict=True):
            if len(question) > _QUESTION:
                question = np.append(question[: _QUESTION - 1], question[-1])
            parts = self._parts(sentences[at], self._network.longest - len(question) - 1)
            text = np.concatenate([part.read for part in parts])
            batch.append((at, Pieces(question, text), parts))
            length += len(question) + len(text)
            if length >= self._together or at == asked[-1]:
                check_stopped()
                with one_thread():
                    found = self._network.read([pieces for _, pieces, _ in batch])
                for (place, _, read), spans in zip(batch, found, strict=True):
                    looks[place] = self._decoded(spans, read)
                batch, length = [], 0
        return looks

    def _parts(self, sentences: Sequence[FoundSentence], room: int) -> list[_Part]:
        """The pieces of sentences in the order of the text; what does not fit is left out, the worst sentence first."""
        best_first = sorted(sentences, key=lambda sentence: -sentence.score)
        parts: list[_Part] = []
        cuts = [_cut(sentence) for sentence in best_first]
        texts = [sentence.text[first:last] for sentence, (first, last) in zip(best_first, cuts, strict=True)]
        for sentence, (first, _), (ids, places) in zip(
            best_first, cuts, self._tokenizer.read_sentences(texts), strict=True
        ):
            ids, places = ids[:room], places[:room] + sentence.start + first
            if len(ids):
                # A line of a form ends where the next one begins.
                after = ids[:0] if _ENDED.search(sentence.text) else self._stop[: room - len(ids)]
                parts.append(_Part(sentence, ids, places[:, 0], places[:, 1], ids[:0], after))
                room -= len(ids) + len(after)
        parts.sort(key=lambda part: (part.sentence.document or "", part.sentence.start))
        return self._with_context(parts, room)

    def _with_context(self, parts: list[_Part], room: int) -> list[_Part]:
        """Parts with the pieces of what stands above them, if there is room; what several have above them once."""
        read: list[str] = []
        for at, part in enumerate(parts):
            new = [line for line in part.sentence.context.split("\n") if line and line not in read]
            if new:
                ids = np.concatenate([ids for ids, _ in self._tokenizer.read_sentences(new)])[:room]
                parts[at] = part._replace(above=ids)
                room -= len(ids)
                read += new
        return parts

    def _decoded(self, spans: Spans, parts: Sequence[_Part]) -> Look:
        """The best span of each sentence, of whole words, best first."""
        answers = np.concatenate([part.answers for part in parts])
        starts, ends = (
            values[answers] - np.logaddexp.reduce(values[answers]) for values in (spans.starts, spans.ends)
        )
        found, first = [], 0
        for part in parts:
            last = first + len(part.ids)
            start, end, score = best_span(starts[first:last], ends[first:last])
            inner = self._tokenizer.continuing[part.ids]
            while start > 0 and inner[start]:
                start -= 1
            while end + 1 < len(inner) and inner[end + 1]:
                end += 1
            found.append(FoundSpan(part.sentence, int(part.starts[start]), int(part.ends[end]), score))
            first = last
        return Look(sorted(found, key=lambda span: -span.score), spans.present)


def _cut(sentence: FoundSentence) -> tuple[int, int]:
    """The characters of a sentence that are read: all, or those around its likeliest phrase."""
    if len(sentence.text) <= _CHARACTERS:
        return 0, len(sentence.text)
    middle = (sentence.phrase_start + sentence.phrase_end) // 2 - sentence.start
    first = min(max(0, middle - _CHARACTERS // 2), len(sentence.text) - _CHARACTERS)
    return first, first + _CHARACTERS


def best_span(starts: Floats, ends: Floats, longest: int = _ANSWER) -> tuple[int, int, float]:
    """The first and last piece with the highest sum of scores, and the sum.

    >>> best_span(np.float32([0, 9, 0]), np.float32([9, 0, 8]))
    (1, 2, 17.0)
    """
    best, place = -np.inf, (0, 0)
    for length in range(min(longest, len(starts))):
        sums = starts[: len(starts) - length] + ends[length:]
        at = int(sums.argmax())
        if sums[at] > best:
            best, place = float(sums[at]), (at, at + length)
    return *place, best
