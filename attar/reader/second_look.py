"""A second look: the sentences that a memory found are read again, together with the question.

The memory finds the right sentence far more often than the right words in it. A small network reads the question with
the best one to five sentences, whatever the length of the text, and says which words answer it, and whether any do.
It also reads what the text says above a sentence: its title, and the heading of the part that the sentence stands in.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.progress import check_stopped, one_thread
from attar.reader.fast_spans import Pieces, Spans
from attar.reader.windows import PieceTokenizer

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


class LookPart(NamedTuple):
    """A sentence that is read: where its pieces are among all, and their characters in the document."""

    sentence: FoundSentence
    pieces: slice
    places: NDArray[np.int64]  # [n, 2]


class LookInput(NamedTuple):
    """What a second look reads for a question: its pieces, and the sentences among them.

    Other pieces are of what stands above a sentence, or end it: they do not answer.
    """

    pieces: Pieces
    parts: list[LookPart]

    @property
    def answers(self) -> NDArray[np.bool_]:
        """Which pieces of the text are of a sentence, and may answer."""
        found = np.zeros(len(self.pieces.text), np.bool_)
        for part in self.parts:
            found[part.pieces] = True
        return found


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
        batch: list[tuple[int, LookInput]] = []
        length = 0
        inputs = self.inputs(questions, sentences)
        last = max((at for at, asked in enumerate(inputs) if asked is not None), default=-1)
        for at, asked in enumerate(inputs):
            if asked is None:
                continue
            batch.append((at, asked))
            length += len(asked.pieces.question) + len(asked.pieces.text)
            if length >= self._together or at == last:
                check_stopped()
                with one_thread():
                    found = self._network.read([asked.pieces for _, asked in batch])
                for (place, read), spans in zip(batch, found, strict=True):
                    looks[place] = self._decoded(spans, read)
                batch, length = [], 0
        return looks

    def inputs(
        self, questions: Sequence[str], sentences: Sequence[Sequence[FoundSentence]]
    ) -> list[LookInput | None]:
        """What is read for each question; None without sentences."""
        inputs: list[LookInput | None] = [None] * len(questions)
        asked = [at for at, found in enumerate(sentences) if found]
        pieces = self._tokenizer.read_questions([questions[at] for at in asked])
        for at, question in zip(asked, pieces, strict=True):
            if len(question) > _QUESTION:
                question = np.append(question[: _QUESTION - 1], question[-1])
            inputs[at] = self._input(question, sentences[at])
        return inputs

    def _input(self, question: NDArray[np.int32], sentences: Sequence[FoundSentence]) -> LookInput:
        """Sentences in the order of the text; what does not fit is left out, the worst sentence first.

        What stands above them is read if there is room, and once if it stands above several.
        """
        room = self._network.longest - len(question) - 1
        best_first = sorted(sentences, key=lambda sentence: -sentence.score)
        cuts = [_cut(sentence) for sentence in best_first]
        texts = [sentence.text[first:last] for sentence, (first, last) in zip(best_first, cuts, strict=True)]
        found = []
        for sentence, (first, _), (ids, places) in zip(
            best_first, cuts, self._tokenizer.read_sentences(texts), strict=True
        ):
            ids, places = ids[:room], places[:room] + sentence.start + first
            if len(ids):
                # A line of a form ends where the next one begins.
                after = ids[:0] if _ENDED.search(sentence.text) else self._stop[: room - len(ids)]
                found.append((sentence, ids, places, after))
                room -= len(ids) + len(after)
        found.sort(key=lambda part: (part[0].document or "", part[0].start))
        text, parts, length, known = list[NDArray[np.int64]](), [], 0, list[str]()
        for sentence, ids, places, after in found:
            new = [line for line in sentence.context.split("\n") if line and line not in known]
            above = np.concatenate([ids[:0], *(read for read, _ in self._tokenizer.read_sentences(new))])[
                :room
            ]
            room -= len(above)
            known += new
            first = length + len(above)
            parts.append(LookPart(sentence, slice(first, first + len(ids)), places))
            text += [above, ids, after]
            length = first + len(ids) + len(after)
        return LookInput(Pieces(question, np.concatenate(text)), parts)

    def _decoded(self, spans: Spans, read: LookInput) -> Look:
        """The best span of each sentence, of whole words, best first."""
        answers, found = read.answers, []
        starts, ends = (
            values - np.logaddexp.reduce(values[answers]) for values in (spans.starts, spans.ends)
        )
        for part in read.parts:
            start, end, score = best_span(starts[part.pieces], ends[part.pieces])
            inner = self._tokenizer.continuing[read.pieces.text[part.pieces]]
            while start > 0 and inner[start]:
                start -= 1
            while end + 1 < len(inner) and inner[end + 1]:
                end += 1
            first, last = int(part.places[start, 0]), int(part.places[end, 1])
            found.append(FoundSpan(part.sentence, first, last, score))
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


# A heading is a short line of its own. So far above a sentence one is looked for.
_LONGEST, _FARTHEST = 80, 4_000
_ENDS = re.compile(r"[.!?,;…][\"'”’)\]]*\Z")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
# What stands around a heading in plain text: "## Work", "Work\n====", "*Work*".
_RULE = re.compile(r"[=\-~^\"'#*+_.\s]*")
_MARKS = "#*=_ \t"
_ITEM = re.compile(r"[-–—•*▪◦‣·+]\s|\(?\w{1,3}[.)]\s")
_FOLDER = re.compile(r".*[/\\]", re.DOTALL)
_ENDING = re.compile(r"\.[A-Za-z]\w{0,4}\Z")


def headings_above(text: str, start: int, name: str = "") -> list[str]:
    r"""The name of a document, its title, and the heading above a sentence that begins at `start`.

    >>> text = "Ann Lee\n\nWORK\n2021: nurse\n2014: cook\n\nOTHER\nDrives: yes"
    >>> headings_above(text, text.index("2014"), "staff/CV Ann.docx"), headings_above(text, 0)
    (['CV Ann', 'Ann Lee', 'WORK'], [])
    """
    found = [_FOLDER.sub("", _ENDING.sub("", name))] if name else []
    paragraphs = _paragraphs(text[max(0, start - _FARTHEST) : start])
    if start > _FARTHEST:
        del paragraphs[:1]
        first = text[: _LONGEST + 1].lstrip().split("\n")[0]
    else:
        first = paragraphs[0][0] if paragraphs else ""
    own = text[max(text.rfind("\n", 0, start) + 1, start - _LONGEST) : start + 1]
    if _is_heading(first):
        found.append(_plain(first))
    heading = _nearest(paragraphs, own)
    if heading and _plain(heading) not in found:
        found.append(_plain(heading))
    return found


def _paragraphs(text: str) -> list[list[str]]:
    """The lines of each paragraph, without lines that are only drawn."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.split("\n") if not _RULE.fullmatch(line)]
        if lines:
            found.append(lines)
    if text.endswith("\n\n"):
        found.append([])
    return found


def _nearest(paragraphs: list[list[str]], own: str) -> str:
    """The last heading: a line alone, or one in a paragraph, in capitals or less indented than what follows."""
    for at in range(len(paragraphs) - 1, -1, -1):
        lines, is_own = paragraphs[at], at == len(paragraphs) - 1
        if is_own:
            above = [line for line in lines if _leads(line, own)]
            if above:
                return above[-1]
        elif lines and _is_heading(lines[0]) and (not lines[1:] or lines[0].isupper()):
            before = paragraphs[at - 1] if at else []
            # Of several such lines the first is the heading, and the others are what it lists.
            if lines[0].isupper() or len(before) != 1 or not _is_heading(before[0]) or at == 1:
                return lines[0]
    return ""


def _leads(line: str, below: str) -> bool:
    """Whether a line above another one is its heading."""
    return _is_heading(line) and (line.isupper() or _indent(below) > _indent(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_heading(line: str) -> bool:
    line = line.strip()
    if len(line) > _LONGEST or _ENDS.search(line) or _ITEM.match(line):
        return False
    is_label = ": " in line and not line.startswith("#")
    return not is_label and len(_LETTER.findall(line)) > len(_DIGIT.findall(line))


def _plain(line: str) -> str:
    return " ".join(line.strip(_MARKS).split())
