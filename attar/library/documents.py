"""The documents of a library: found by what people type, chosen by a subset, shown in lists, and opened to be asked."""

import difflib
import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain

from msgspec.structs import replace

from attar.errors import AttarError, OptionError, UnknownDocumentError, quoted
from attar.memory.memory import Memory
from attar.results import SENTENCE, Answer, Asked, Document, Subset, paired
from attar.store.records import DocumentEntry, Fault, Parts, key_of, read_entry, unpack_parts
from attar.store.store import Store
from attar.store.transactions import Reading, Snapshot
from attar.text.kinds import is_yes_no

# Of a million names not all are compared with an unknown one: the first, and those next to it in order.
_FIRST, _NEIGHBOURS = 10_000, 500
# difflib takes quadratic time in the length.
_COMPARED = 120
# Names that an error for an ambiguous one shows.
_SHOWN = 3


class AskedByName(ABC):
    """A library whose documents are asked by their names, one question or many."""

    def ask(self, name: str, question: str, *, top: int | None = 5, look: int | None = None) -> list[Answer]:
        """The `top` most likely answers, most likely first, with quotes if the text is kept; all with `top=None`.

        If it is, the best `look` sentences are read again with the question: 0 to 5, by default 3.
        """
        return self.ask_many(name, [question], top=top, look=look)[0]

    def ask_many(
        self,
        names: str | Sequence[str],
        questions: str | Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from its own document; one name, or one question, is used for all."""
        about, asked = paired(names, questions)
        answers = []
        with self._suggesting(about):
            for result in self.ask_each(about, asked, top=top, look=look):
                if isinstance(result, AttarError):
                    raise result
                answers.append(result.answers)
        return answers

    @abstractmethod
    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        """The answers to each question from its own document, or the error of this question alone.

        A server asks the questions of many clients together; similar names are not looked for.
        """

    @abstractmethod
    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has; None if there is a document of that name."""

    @contextmanager
    def _suggesting(self, names: Iterable[str]) -> Iterator[None]:
        """Add similar names to the error for a name that does not exist."""
        try:
            yield
        except UnknownDocumentError:
            for name in names:
                similar = self.similar(name)
                if similar is not None:
                    raise UnknownDocumentError.named(name, similar) from None
            raise


def find_document(store: Store, given: str) -> str:
    """The document whose name or file name starts with the input.

    Capitals do not matter, unless two names differ by them only.
    """
    if given and given in store:
        return given
    key = given.casefold()
    by_rank: tuple[list[str], ...] = [], [], []
    for entry in store.documents() if key else ():
        name = (entry.name or "").casefold()
        file = name.rpartition("/")[2]
        fits = name == key, file == key, name.startswith(key) or file.startswith(key)
        if any(fits):
            by_rank[fits.index(True)].append(entry.name or "")
    for names in by_rank:
        if len(names) == 1:
            return names[0]
        if names:
            shown = ", ".join(map(quoted, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
            message = f"{quoted(given)} is the beginning of {len(names):,} names: {shown}"
            raise OptionError(message, "type more of its name")
    raise UnknownDocumentError.named(given, similar_names(store, given))


def similar_names(store: Store, name: str) -> list[str]:
    """At most three similar names, compared without case, with and without their folders."""
    neighbours = store.documents(after=name[: len(name) // 2] or None, limit=_NEIGHBOURS)
    others = (facts.name or "" for facts in chain(store.documents(limit=_FIRST), neighbours))
    return closest(name, others)


def closest(name: str, others: Iterable[str]) -> list[str]:
    """At most three names similar to this one, the most similar first.

    >>> closest("emm", ["persuasion", "novels/Emma"])
    ['novels/Emma']
    """
    by_spelling: dict[str, list[str]] = {}
    for other in dict.fromkeys(others):
        for spelling in {other[:_COMPARED].lower(), other.rpartition("/")[2][:_COMPARED].lower()}:
            by_spelling.setdefault(spelling, []).append(other)
    similar = difflib.get_close_matches(name[:_COMPARED].lower(), by_spelling, n=3, cutoff=0.6)
    return list(dict.fromkeys(other for spelling in similar for other in by_spelling[spelling]))[:3]


def document_of(entry: DocumentEntry | Fault) -> Document:
    """A document as lists show it, from the store's entry; of a damaged one, its name and its fault."""
    if isinstance(entry, Fault):
        return replace(document_of(DocumentEntry(name=entry.name or "")), fault=entry.line)
    return Document(
        name=entry.name,
        title=entry.title,
        tokens=entry.tokens,
        bytes=entry.memory_bytes,
        text_bytes=entry.text_bytes,
        digest=entry.digest.hex() or None,
        created=datetime.fromtimestamp(entry.created / 1e6, UTC),
        changed=datetime.fromtimestamp(entry.changed / 1e6, UTC),
        date=entry.date or None,
        incomplete=entry.incomplete or None,
        tags=entry.tags,
        metadata=entry.metadata,
        source=entry.source or None,
    )


@dataclass(frozen=True, eq=False)
class OpenDocument:
    """A document that is asked: its entry, its memory, its text if that is kept, and the parts of that.

    `entry_data` are the bytes of the entry, by which another version is recognised.
    """

    entry_data: bytes
    entry: DocumentEntry
    memory: Memory
    text: str | None
    parts: Parts

    @classmethod
    def read(cls, now: Snapshot, entry: DocumentEntry, entry_data: bytes = b"") -> "OpenDocument":
        """A document as of a state of the store, decoded."""
        parts = unpack_parts(entry.parts, entry.name)
        return cls(entry_data, entry, now.memory(entry), now.text(entry), parts)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return self.memory.decoded_bytes + len(self.text or "")


class MemoryCache:
    """Least recently used cache of decoded documents, at most `limit` bytes.

    A document that was written again, by any process, is decoded again: its entry has other bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._documents: OrderedDict[str, OpenDocument] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._documents)

    def get(self, now: Snapshot, name: str) -> OpenDocument:
        """A document as of the given state of the store."""
        data = now.entry_data(name)
        with self._lock:
            document = self._documents.get(name)
            if document is not None and document.entry_data == data:
                self._documents.move_to_end(name)
                return document
        document = OpenDocument.read(now, read_entry(key_of(name), data), data)
        self._put(document)
        return document

    def _put(self, document: OpenDocument) -> None:
        with self._lock:
            earlier = self._documents.pop(document.entry.name, None)
            self.bytes -= 0 if earlier is None else earlier.bytes
            if document.bytes > self.limit:
                return
            self._documents[document.entry.name] = document
            self.bytes += document.bytes
            while self.bytes > self.limit:
                _, oldest = self._documents.popitem(last=False)
                self.bytes -= oldest.bytes


def shown_answers(question: str, answers: list[Answer], document: OpenDocument) -> list[Answer]:
    """The answers of a document as users get them: with places, and whole sentences where yes or no is asked."""
    if is_yes_no(question):
        answers = distinct_places([whole_sentence(answer, document.text) for answer in answers])
    return with_places(answers, document.parts)


def with_places(answers: list[Answer], parts: Parts) -> list[Answer]:
    """Answers with the labels of the parts that they stand in."""
    if not parts:
        return answers
    return [
        answer if answer.start is None else replace(answer, place=place_in(parts, answer.start))
        for answer in answers
    ]


def whole_sentence(answer: Answer, text: str | None) -> Answer:
    """An answer as the sentence that it stands in: what a question that wants yes or no is decided by.

    >>> text = "Ann left. Bob may keep a dog."
    >>> found = whole_sentence(Answer("a dog", 0.5, "phrase", "Bob may keep a dog.", 23, 28), text)
    >>> found.text, found.kind, text[found.start : found.end]
    ('Bob may keep a dog.', 'sentence', 'Bob may keep a dog.')
    """
    quote = answer.quote
    if text is None or not quote or answer.start is None or answer.end is None:
        return answer
    start = text.rfind(quote, max(0, answer.end - len(quote)), answer.start + len(quote))
    if start < 0:
        return answer
    return replace(answer, text=quote, kind=SENTENCE, start=start, end=start + len(quote))


def distinct_places(answers: Sequence[Answer]) -> list[Answer]:
    """Answers with those at the same place as one, which is as likely as all of them."""
    kept: dict[tuple[object, ...], Answer] = {}
    for answer in answers:
        place = (answer.absent, answer.document, answer.start, answer.end, answer.text)
        known = kept.get(place)
        probability = answer.probability + (0.0 if known is None else known.probability)
        kept[place] = replace(known or answer, probability=min(probability, 1.0))
    return list(kept.values())


def place_in(parts: Parts, character: int) -> str | None:
    """The label of the part that holds a character.

    >>> parts = [(0, "page 1"), (900, "page 2"), (950, "")]
    >>> place_in(parts, 899), place_in(parts, 900), place_in(parts, 999), place_in([], 0)
    ('page 1', 'page 2', None, None)
    """
    at = bisect_right(parts, character, key=lambda part: part[0])
    return (parts[at - 1][1] or None) if at else None


# Subsets whose documents are kept until the library changes.
_KEPT = 16


class Selection:
    """Says of each document whether it is in a subset."""

    def __init__(self, subset: Subset) -> None:
        self._subset = subset
        self._names, self._tags = frozenset(subset.names), frozenset(subset.tags)
        self._folder = _components(subset.folder)

    def has(self, entry: DocumentEntry) -> bool:
        if self._names and entry.name not in self._names:
            return False
        if not self._tags.issubset(entry.tags):
            return False
        if self._folder and not any(map(self._is_below, (entry.source, entry.name))):
            return False
        return self._subset.since is None or _date_of(entry) >= self._subset.since

    def _is_below(self, path: str) -> bool:
        """Whether a file is in the folder, whose path is given from the root or from anywhere below."""
        folders, size = _components(path)[:-1], len(self._folder)
        starts = range(1 if self._folder[0] == "" else len(folders) - size + 1)
        return any(folders[at : at + size] == self._folder for at in starts)


def _components(path: str) -> list[str]:
    """The parts of a path, the first of an absolute one empty; case does not count.

    >>> _components("/home/Ann/letters/"), _components("./letters"), _components("")
    (['', 'home', 'ann', 'letters'], ['letters'], [])
    """
    if not path:
        return []
    return os.path.normpath(path).replace(os.sep, "/").casefold().rstrip("/").split("/")


def _date_of(entry: DocumentEntry) -> date:
    """The document's own date, or else the day on which it was added."""
    try:
        return date.fromisoformat(entry.date[:10])
    except ValueError:
        return datetime.fromtimestamp(entry.created / 1e6, UTC).date()


def entries_in(now: Reading, subset: Subset, after: str | None = None) -> Iterator[DocumentEntry]:
    """The entries of a subset's documents, in the order of names; damaged ones are left out."""
    selection = Selection(subset)
    if subset.names:
        for name in sorted(set(subset.names)):
            entry = now.find(name)
            if entry is not None and selection.has(entry) and (after is None or name > after):
                yield entry
        return
    for listed in now.documents(after):
        if not isinstance(listed, Fault) and selection.has(listed):
            yield listed


class SubsetCache:
    """The keys of the documents of the last subsets, as long as the library stays the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: OrderedDict[tuple[int, Subset], frozenset[bytes]] = OrderedDict()

    def keys(self, now: Reading, subset: Subset) -> frozenset[bytes]:
        """The keys of a subset's documents, as of a state of the store."""
        which = (now.last_change, subset)
        with self._lock:
            known = self._keys.get(which)
        if known is None:
            known = frozenset(key_of(entry.name) for entry in entries_in(now, subset))
            with self._lock:
                if not subset.names:  # a thousand long names would stay in memory
                    self._keys[which] = known
                while len(self._keys) > _KEPT:
                    self._keys.popitem(last=False)
        return known


def nothing_in(subset: Subset) -> AttarError:
    """The error for a subset without documents."""
    if subset.names and subset == Subset(names=subset.names):
        return UnknownDocumentError.named(subset.names[0])
    given = [f"the name {quoted(name)}" for name in subset.names[:1]]
    given += [f"the folder {quoted(subset.folder)}"] if subset.folder else []
    given += [f"the tag {quoted(tag)}" for tag in subset.tags]
    given += [f"a date since {subset.since}"] if subset.since is not None else []
    return OptionError(f"no document has {' and '.join(given)}", "see what there is: attar list STORE")
