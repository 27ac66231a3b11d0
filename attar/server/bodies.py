"""What goes over the wire: one struct a body, which says what is read, written and documented."""

from typing import Annotated, TypeVar

import msgspec

from attar.errors import OptionError
from attar.library import Outcome
from attar.results import Answer

Top = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="answers a question, at most")]
Numbers = list[float]
Value = TypeVar("Value")


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What all requests share: fields that are not known are refused, for they are mostly misspelt."""


class PutDocument(Asked):
    """A document: its text, a title, and whether it may replace another text of that name."""

    text: str
    title: str = ""
    replace: bool = True


class AppendText(Asked):
    """Text that comes after what the document has."""

    text: str


class Ask(Asked):
    """A question of a document, or lists: a question for each document, or all of one, or one of all."""

    document: str | None = None
    question: str | None = None
    documents: list[str] | None = None
    questions: list[str] | None = None
    top: Top = 5

    @property
    def single(self) -> bool:
        """Whether it is one question of one document, and answered so."""
        return self.documents is None and self.questions is None

    def pairs(self) -> tuple[list[str], list[str]]:
        """Documents' names and questions, one for each other.

        >>> Ask(document="emma", questions=["Who left?", "Who came?"]).pairs()
        (['emma', 'emma'], ['Who left?', 'Who came?'])
        """
        if self.document is not None and self.question is not None and self.single:
            return [self.document], [self.question]
        names = one_or_many("document", self.document, self.documents)
        asked = one_or_many("question", self.question, self.questions)
        return paired("questions", names, asked)


class Lookup(Asked):
    """A raw vector for a document, or lists: a vector for each document, or all for one."""

    document: str | None = None
    vector: Numbers | None = None
    documents: list[str] | None = None
    vectors: list[Numbers] | None = None

    @property
    def single(self) -> bool:
        """Whether it is one vector for one document, and answered so."""
        return self.documents is None and self.vectors is None

    def pairs(self) -> tuple[list[str], list[Numbers]]:
        """Documents' names and vectors, one for each other."""
        if self.document is not None and self.vector is not None and self.single:
            return [self.document], [self.vector]
        names = one_or_many("document", self.document, self.documents)
        return paired("vectors", names, one_or_many("vector", self.vector, self.vectors))


class Explain(Asked):
    """A question, and a text or a document whose text is kept."""

    question: str
    text: str | None = None
    document: str | None = None


class Compare(Asked):
    """The document whose lookup is measured beside softmax over as many states."""

    document: str


class Answers(msgspec.Struct):
    """Answers, the likeliest first; the seconds from asking to answering, and the bytes of memory read."""

    document: str
    question: str
    answers: list[Answer]
    seconds: float
    bytes: int


class Result(msgspec.Struct):
    """The answers to one of several questions."""

    document: str
    question: str
    answers: list[Answer]


class ManyAnswers(msgspec.Struct):
    """The answers to each question, in their order."""

    results: list[Result]
    seconds: float
    bytes: int


class Readout(msgspec.Struct):
    """What a lookup returned."""

    document: str
    readout: Numbers
    seconds: float
    bytes: int


class Readouts(msgspec.Struct):
    """What each lookup returned, in their order."""

    readouts: list[Numbers]
    seconds: float
    bytes: int


class Explanation(msgspec.Struct):
    """A text's tokens, the weight of each for the question, and the answers."""

    tokens: list[str]
    weights: Numbers
    answers: list[Answer]
    seconds: float


class Cost(msgspec.Struct):
    """What one lookup took: seconds in the middle of several, and bytes that were read."""

    seconds: float
    bytes: int


class Comparison(msgspec.Struct):
    """What a lookup in a document's memory took, and one by softmax over as many states, both measured."""

    document: str
    tokens: int
    size: int
    lookup: Cost
    softmax: Cost


class Facts(msgspec.Struct):
    """What is told of a document in a list."""

    name: str
    title: str
    tokens: int
    bytes: int
    text_bytes: int | None
    form: str
    dtype: str
    digest: str | None
    created: str
    changed: str


class Picture(msgspec.Struct):
    """A memory's numbers as rows, each with its label if it is a name's; thinned out if they are many."""

    rows: int
    columns: int
    labels: list[str]
    values: list[Numbers]


class Document(Facts):
    """All that is told of one document; the text if it is kept, the picture if it was asked for."""

    mechanism: str
    size: int
    reader: str
    names: list[str]
    text: str | None
    memory: Picture | None = None


class Page(msgspec.Struct):
    """Some documents in the order of their names, and the name to go on behind."""

    documents: list[Facts]
    next: str | None


class Change(msgspec.Struct):
    """What became of a document."""

    name: str
    change: str
    tokens: int
    bytes: int

    @classmethod
    def of(cls, outcome: Outcome) -> "Change":
        """A change as the library says it."""
        return cls(*outcome)


def one_or_many(word: str, one: Value | None, many: list[Value] | None) -> list[Value]:
    """The values of a word, said once or as a list.

    >>> one_or_many("document", "emma", None)
    ['emma']
    """
    if (one is None) == (many is None):
        came = "neither" if one is None else "both"
        raise OptionError(word, f'"{word}" or "{word}s"', came)
    return [one] if one is not None else list(many or ())


def paired(word: str, names: list[str], values: list[Value]) -> tuple[list[str], list[Value]]:
    """Names and values, one for each other; one stands for all."""
    if not names or not values:
        raise OptionError(word, "at least one, and a document", "none")
    if len(names) == 1:
        names = names * len(values)
    elif len(values) == 1:
        values = values * len(names)
    if len(names) != len(values):
        raise OptionError(word, f"one for each of {len(names)} documents", str(len(values)))
    return names, values
