"""Question sets in word pieces: what batches are made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.text.pieces import PieceText, PieceTokenizer
from attar.training.data import Passage, PassageQuestion
from attar.training.typed import as_typed

Array = NDArray[Any]
# The longest passage, in pieces.
LONGEST_PASSAGE = 318
# The longest question, in pieces.
LONGEST_QUESTION = 48


@dataclass
class QuestionSet:
    """A set in word pieces. Questions have numbers from 0; `golds` are token spans (first, last), both inclusive."""

    passages: list[Passage]
    texts: list[PieceText]
    questions: list[NDArray[np.int32]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    golds: list[NDArray[np.int32]] = field(default_factory=list)  # [answers, 2]
    of_passage: list[list[int]] = field(default_factory=list)
    sources: list[PassageQuestion] = field(default_factory=list)
    soft: list[NDArray[np.float16] | None] = field(default_factory=list)  # [2, n] of the teacher
    absent: set[int] = field(default_factory=set)  # questions without an answer
    typed: list[NDArray[np.int32]] = field(default_factory=list)  # questions as a person might type them

    @classmethod
    def of(
        cls, passages: Sequence[Passage], tokenizer: PieceTokenizer, longest: int = LONGEST_PASSAGE
    ) -> "QuestionSet":
        """Tokenize; pieces after the longest are dropped, and the answers in them."""
        texts = [cut(text, longest) for text in tokenizer.read([passage.text for passage in passages])]
        encoded = cls(list(passages), texts, of_passage=[[] for _ in passages])
        flat = [question for passage in passages for question in passage.questions]
        ids = iter(tokenizer.read_questions([question.text for question in flat]))
        random = np.random.default_rng(0)
        typed = iter(tokenizer.read_questions([as_typed(question.text, random) for question in flat]))
        for at, passage in enumerate(passages):
            for question in passage.questions:
                gold = token_spans(texts[at], question.answers)
                encoded.add_question(at, next(ids)[:LONGEST_QUESTION], gold, question)
                encoded.typed.append(next(typed)[:LONGEST_QUESTION])
        return encoded

    def add_question(
        self,
        passage: int,
        ids: NDArray[np.int32],
        gold: NDArray[np.int32],
        source: PassageQuestion,
        soft: NDArray[np.float16] | None = None,
    ) -> None:
        self.of_passage[passage].append(len(self.questions))
        if source.labelled and not source.answers and not len(gold):
            self.absent.add(len(self.questions))
        self.questions.append(ids)
        self.owners.append(passage)
        self.golds.append(gold)
        self.sources.append(source)
        self.soft.append(soft)

    def keep_questions(self, kept: set[int]) -> None:
        """Leave out the other questions; numbers stay as they are."""
        self.of_passage = [[q for q in own if q in kept] for own in self.of_passage]

    def labelled(self) -> list[int]:
        """The questions whose answers are known and were not cut off."""
        return [q for q, gold in enumerate(self.golds) if self.sources[q].labelled and len(gold)]

    def gold_texts(self, question: int) -> list[str]:
        text = self.passages[self.owners[question]].text
        return [text[start:end] for start, end in self.sources[question].answers]

    def span_text(self, passage: int, first: int, last: int) -> str:
        text = self.texts[passage]
        return self.passages[passage].text[text.starts[first] : text.ends[last]]


def cut(text: PieceText, longest: int) -> PieceText:
    if len(text) <= longest:
        return text
    at = slice(0, longest)
    return PieceText(text.ids[at], text.starts[at], text.ends[at], text.sentences[at], text.sentence_spans)


def token_spans(text: PieceText, answers: Iterable[tuple[int, int]]) -> NDArray[np.int32]:
    """The first and last piece of each answer, each pair once; answers that are cut off are left out."""
    found = set()
    for start, end in answers:
        first = int(np.searchsorted(text.ends, start, side="right"))
        last = int(np.searchsorted(text.starts, end, side="left")) - 1
        if first <= last < len(text) and text.starts[first] < end:
            found.add((first, last))
    return np.array(sorted(found), np.int32).reshape(-1, 2)
