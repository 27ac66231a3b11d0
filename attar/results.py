"""What a library takes and returns, served or not: `Library`, `Client` and the HTTP API share these types."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Literal

import msgspec

from attar.errors import DtypeError, FormatError, OptionError, ShapeError, quoted

# The most characters of a question.
LONGEST_QUESTION = 10_000
_PUNCTUATION = str.maketrans("", "", "?!.,;:…¿¡")
# The kind of the answer "not in this text".
ABSENT = "none"
# The kind of the answer to a question that wants yes or no: the sentence that decides.
SENTENCE = "sentence"

Certainty = Literal["likely", "possible", "unsure"]
# The least probabilities of the first two words. `attar evaluate-questions` and `python -m benchmarks.folder` print how
# often first answers of each word are right: "likely" is to be right at least four times in five, "possible" at least
# twice in five. A reader with another calibration needs other limits.
LIKELY = 0.5
POSSIBLE = 0.25


def certainty_of(probability: float) -> Certainty:
    """A probability in a word: the only place that says so, for Python, JSON, the terminal and the page.

    >>> certainty_of(LIKELY), certainty_of(POSSIBLE), certainty_of(0.0)
    ('likely', 'possible', 'unsure')
    """
    return "likely" if probability >= LIKELY else "possible" if probability >= POSSIBLE else "unsure"


class OtherPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where else an answer stands: in a copy of its document, or in a sentence like its own."""

    document: str
    start: int | None = None
    end: int | None = None
    place: str | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A phrase of the document, how likely it is the answer, and where it stands.

    `kind` is person, place, organization, name (another one), date, time, money, number or phrase (anything else); a
    question that wants yes or no gets the sentences that decide, of the kind "sentence". With the kind "none" the text
    is empty: the answer is not in the document. `quote` is the sentence of the phrase, if the text is kept; `start` and
    `end` are its characters; `place` is where that is, such as "page 3", if the file had pages, headings or rows.
    `document` is the name of the document, where all documents were asked; `also` are the other places that say the
    same. `quote_probability` is how likely it is that this sentence contains the answer, even if the chosen words are
    not exactly right; for the best answer only. `certainty` is the probability in a word: likely, possible or unsure.

    >>> Answer("Ann Lee", 0.5, "person").absent, Answer("", 0.9, ABSENT).absent
    (False, True)
    """

    text: str
    probability: float
    kind: str
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    document: str | None = None
    place: str | None = None
    also: tuple[OtherPlace, ...] = ()
    quote_probability: float | None = None
    certainty: Certainty | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "certainty", certainty_of(self.probability))

    @property
    def absent(self) -> bool:
        """Whether this says that the answer is not in the document."""
        return self.kind == ABSENT


class AnswerGroup(msgspec.Struct, frozen=True):
    """The places of a library that give the same answer, but for case, articles and punctuation; the likeliest first.

    `text`, `kind` and `probability` are those of the first, `count` is the number of places.
    """

    text: str
    probability: float
    kind: str
    count: int
    places: list[Answer]


class Asked(msgspec.Struct, frozen=True):
    """The answers to one of many questions, and the bytes of the memory that they come from."""

    answers: list[Answer]
    bytes: int


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to a document: its name, the change, its tokens and the bytes of its memory.

    `incomplete` says what of its file the text is without, such as "row 2,001 and what follows"; mostly nothing.
    """

    name: str
    change: Literal["added", "replaced", "unchanged", "appended", "merged"]
    tokens: int
    bytes: int
    incomplete: str = ""


class FolderChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """What adding a folder did: the documents that were added or unchanged, and the names of those removed.

    `refused` are the errors of files and documents that were not added, `skipped` files of other kinds, with why.
    """

    changes: list[Change]
    removed: list[str] = []
    refused: list[str] = []
    skipped: list[str] = []


class Reread(msgspec.Struct, frozen=True):
    """What `Library.reread` did: the reader that the library has now, its documents, and how many were read."""

    reader: str
    documents: int
    read: int


class Refit(msgspec.Struct, frozen=True):
    """What `Library.refit` did: how many documents have a signature, and how many search cannot find: `left_out`.

    These have no kept text, or are damaged.
    """

    signatures: int
    left_out: int = 0


class Document(msgspec.Struct, frozen=True):
    """A document as lists show it. `bytes` is the size of its memory, `text_bytes` of its text if kept.

    `date` is the document's own, if its file has one; `source` is the path of the file that it came from. `fault` says
    why a document cannot be read; then only its name is known. `incomplete` is that of `Change`; `tags` and `metadata`
    are those that it was added with.
    """

    name: str
    title: str
    tokens: int
    bytes: int
    text_bytes: int | None
    digest: str | None
    created: datetime
    changed: datetime
    fault: str | None = None
    date: str | None = None
    incomplete: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    source: str | None = None


class DocumentDetails(Document, frozen=True, kw_only=True):
    """One document in full: the fingerprint of its reader, and its text if kept."""

    reader: str
    text: str | None


class Sentence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence of a document, its characters, and its place, as in `Answer`."""

    text: str
    start: int
    end: int
    place: str | None = None


class Excerpt(Sentence, frozen=True):
    """What stands around a sentence: whole paragraphs, at most 1,200 characters; its characters and its place."""


class Hit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A document that search found, with its sentences that fit best; none if its text is not kept.

    `passages` are the paragraphs around these sentences, if they were asked for.
    `score` is comparable between the documents of one search, not between searches.
    """

    document: str
    title: str
    score: float
    sentences: list[Sentence]
    passages: list[Excerpt] = []


class Difference(msgspec.Struct, frozen=True):
    """Words of a quote, and what the document has in their place; either may be empty."""

    quote: str
    text: str


class QuotedPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place that says a quote: the document's own words, their characters, and the place, as in `Answer`.

    Without `differences` it says it word for word; case, punctuation and spaces do not count.
    """

    document: str
    text: str
    start: int
    end: int
    place: str | None = None
    differences: list[Difference] = []


Verdict = Literal["found", "nearly", "absent"]


class Verified(msgspec.Struct, frozen=True):
    """Whether a library says a quote, word for word ("found"), with a few words changed ("nearly"), or not ("absent").

    `passages` are the places, the nearest first. `unchecked` documents fit, but their texts are not kept.
    """

    verdict: Verdict
    passages: list[QuotedPlace]
    unchecked: int = 0


class Subset(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Some documents of a library: those that fit all that is given.

    `names` are whole names. `folder` is a path, or the end of one: "letters/2019" are the documents from files below
    any such folder, or with such a name. A document needs all `tags`. `since` is a day: the document's own date, or
    else the day on which it was added, is not before.

    >>> Subset(tags=("paid",)) == Subset(tags=("paid",)), bool(Subset())
    (True, False)
    """

    names: tuple[str, ...] = ()
    folder: str = ""
    tags: tuple[str, ...] = ()
    since: date | None = None

    def __post_init__(self) -> None:
        """Refuse what takes long to look for in every document, or stays in memory."""
        bounds = (
            ("names", self.names, _MOST_NAMES),
            ("folder", self.folder, _LONGEST_FOLDER),
            ("tags", self.tags, MOST_LABELS),
        )
        for what, given, most in bounds:
            if len(given) > most:
                raise OptionError.expected(f"{what} of a subset", f"at most {most:,}", f"{len(given):,}")
        for tag in self.tags:
            _check_label("tag", tag, 1, LONGEST_LABEL)

    def __bool__(self) -> bool:
        return self != Subset()


# The most tags of a document, and pairs of its metadata.
MOST_LABELS = 64
# The most characters of a tag, and of a name in metadata; and of a value there.
LONGEST_LABEL = 100
_LONGEST_VALUE = 1_000
# The most names of a subset, and the most characters of its folder.
_MOST_NAMES = _LONGEST_FOLDER = 10_000


def check_labels(tags: object, metadata: object) -> None:
    """Refuse tags and metadata that are too long, too many, or no strings.

    >>> check_labels(("a" * 10_000,), {})
    Traceback (most recent call last):
    attar.errors.OptionError: tag: expected 1 to 100 characters, got 10,000; shorten it
    """
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise DtypeError.expected("tags", "a list of strings", type(tags).__name__)
    if not isinstance(metadata, dict):
        raise DtypeError.expected("metadata", "a dictionary of strings", type(metadata).__name__)
    for what, values in (("tags", tags), ("metadata", metadata)):
        if len(values) > MOST_LABELS:
            raise OptionError.expected(what, f"at most {MOST_LABELS}", f"{len(values):,}", "leave some out")
    for tag in tags:
        _check_label("tag", tag, 1, LONGEST_LABEL)
    for name, value in metadata.items():
        _check_label("name in metadata", name, 1, LONGEST_LABEL)
        _check_label("value in metadata", value, 0, _LONGEST_VALUE)


def _check_label(what: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, str):
        raise DtypeError.expected(what, "a string", type(value).__name__)
    if not least <= len(value) <= most:
        remedy = "shorten it" if value else "leave it out"
        raise OptionError.expected(what, f"{least} to {most:,} characters", f"{len(value):,}", remedy)


def check_top(top: object) -> None:
    """Refuse what is no number of answers or documents; None is all of them."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
        raise OptionError.expected("top", "an integer of at least 1", repr(top))


def check_asked(what: str, text: object) -> None:
    """Refuse a question or query that is no text, has no words, or is as long as a book.

    >>> check_asked("question", " ?")
    Traceback (most recent call last):
    attar.errors.FormatError: question: expected some words, got ' ?'
    """
    if not isinstance(text, str):
        raise DtypeError.expected(what, "a string", type(text).__name__)
    if len(text) > LONGEST_QUESTION:
        got = f"{len(text):,} characters"
        raise FormatError.expected(what, f"at most {LONGEST_QUESTION:,} characters", got, "shorten it")
    if not text.translate(_PUNCTUATION).strip():
        raise FormatError.expected(what, "some words", quoted(text) if text.strip() else "nothing")


def paired(names: str | Sequence[str], questions: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """A name for each question: a single name, or a single question, is used for all.

    >>> paired("emma", ["Who left?", "Who came?"])
    (['emma', 'emma'], ['Who left?', 'Who came?'])
    """
    about = [names] if isinstance(names, str) else list(names)
    asked = [questions] if isinstance(questions, str) else list(questions)
    if len(about) == 1:
        about *= len(asked)
    elif len(asked) == 1:
        asked *= len(about)
    if len(about) != len(asked):
        raise ShapeError.expected("questions", f"one for each of {len(about)} documents", str(len(asked)))
    return about, asked
