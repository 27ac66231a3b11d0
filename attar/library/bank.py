"""DocumentBank: the documents of a library on a GPU, for extreme loads of questions.

A device encodes questions, looks them up in their documents, and reads sentences again; numpy makes answers of what it
found, in this process or in others, which need no torch: it is imported where the device is used.
"""

import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from attar.errors import AttarError, DeviceError, OptionError, RecordError, UnknownDocumentError
from attar.library.asking import ask_all
from attar.library.bank_answers import Answerer, AnswerPool, KnownQuestion
from attar.library.documents import OpenDocument
from attar.library.finding import is_number, letter_words
from attar.library.library import Library
from attar.library.shard import OpenedShard
from attar.reader.reader import Reader
from attar.results import Answer, Asked, Subset, check_asked, check_top
from attar.search.index import SearchIndex, SignatureTable
from attar.search.ranking import CorpusQuery, RankedDocument, Standards, best_of
from attar.store.records import DocumentEntry, key_of
from attar.store.transactions import Snapshot
from attar.text.kinds import without_preface

if TYPE_CHECKING:
    import torch

    from attar.reader.fast_bank import BankPlace
    from attar.search.fast_index import Compared, DeviceIndex

# Documents that are brought to the device together.
_TOGETHER = 1_024
# What is left of a device's memory for questions.
_ROOM = 2**32
# More documents than asked for are ranked: some may have changed meanwhile.
_SPARE = 2
# Words of questions that are remembered.
_KNOWN = 100_000


@dataclass(frozen=True, eq=False)
class _Banked:
    document: OpenDocument
    place: "BankPlace"


class DocumentBank:
    """Answers questions as its library does, but for rounding: many at a time, on a device.

    It follows the library: what is added, replaced or removed, by any process, is so for the next question. If the
    device has too little memory, it is refused with the number of documents that fit.
    """

    def __init__(self, library: Library, device: str = "cuda", *, workers: int = 0) -> None:
        """Bring all documents to the device.

        As many other processes as `workers` make answers of what the device found, if many are asked together.
        """
        from attar.reader.encoding import find_device

        self._device = find_device(device)
        self._library = library
        self._pool = AnswerPool(library, workers)
        self._most = _free_memory(self._device)
        # Of what is on the device: the processes answer while the next questions are looked up.
        self.lock = Lock()
        self._begin()
        with self.lock, library.store.snapshot() as now:
            self._refresh(now)
        if len(self) > _TOGETHER:
            # The garbage collector looks at every object now and then: of 100,000 documents, for a third of a second.
            gc.collect()
            gc.freeze()

    def __len__(self) -> int:
        return len(self.documents)

    def close(self) -> None:
        """End the other processes; what is asked afterwards is answered in this one."""
        self._pool.close()

    @property
    def nbytes(self) -> int:
        """The bytes of all documents on the device."""
        return self._on_device.bank.nbytes + (0 if self._search is None else self._search.nbytes)

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        """What `Library.ask_each` returns."""
        check_top(top)
        look = self._library.reader.look_of(look)
        results: dict[int, Asked | AttarError] = {}
        asked: dict[int, _Banked] = {}
        with self.lock, self._library.store.snapshot() as now:
            self._refresh(now)
            for at, (name, question) in enumerate(zip(names, questions, strict=True)):
                try:
                    check_asked("question", question)
                    asked[at] = self._banked(now, name)
                except AttarError as fault:
                    results[at] = fault
            if asked:
                places = [banked.place for banked in asked.values()]
                known = self._on_device.look_up([questions[at] for at in asked], places)
        if asked:
            opened = [banked.document for banked in asked.values()]
            answers = self._pool.answer(self._answerer, known, opened, top, look)
            for at, document, ranked in zip(asked, opened, answers, strict=True):
                results[at] = Asked(ranked, document.entry.memory_bytes)
        return [results[at] for at in range(len(names))]

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from all documents, as the library gives them.

        The device ranks the documents for many questions at once; the best answer as if they were asked by name.
        """
        from attar.search.fast_index import together

        answers: list[list[Answer]] = []
        count = together(len(self))
        for first in range(0, len(questions), count):
            with self._library.opened() as shard:
                with self.lock, self._library.store.snapshot() as now:
                    self._refresh(now)
                each_shard = BankShard(shard, self).alone
                answers += ask_all(each_shard, questions[first : first + count], top, look, within)
        return answers

    def _banked(self, now: Snapshot, name: str) -> _Banked:
        banked = self.documents.get(key_of(name))
        if banked is None:
            now.memory(now.entry(name))  # says what is the matter with it
            raise RecordError(f"document {name!r} cannot be read", "add it again")
        return banked

    def _begin(self) -> None:
        reader = self._library.reader
        if reader.form != "phrases":
            raise OptionError("a bank has the documents of a reader of phrases", "ask the library itself")
        self._on_device = _OnDevice(reader, self._device)
        self._answerer = Answerer(reader, self._on_device.spans)
        self.documents: dict[bytes, _Banked] = {}
        # Once all documents are asked: the index on the device, and in how many of them each word is.
        self._search: DeviceIndex | None = None
        self._words: Counter[str] | None = None
        self._known: tuple[int, dict[str, bool]] = -1, {}
        self._written, self._change = 0, -1

    def _refresh(self, now: Snapshot) -> None:
        """Take over what changed in the library since the last time."""
        if now.header.reader not in (None, self._answerer.reader.fingerprint):
            self._begin()  # it was moved to another reader
            self.close()  # the processes have the former
        if self._change == now.last_change:
            return
        changed = now.changed_since(self._change) if self._change >= 0 else None
        # Removed documents keep their place until there are more of them than others.
        if changed is None or self._written > 2 * len(self.documents) + _TOGETHER:
            if self._change >= 0:
                self._begin()
            changed = set(now.document_keys())
        for key in changed:
            former = self.documents.pop(key, None)
            if former is not None and self._words is not None:
                self._words.subtract(_words_of(former.document))
        keys = sorted(changed)
        for first in range(0, len(keys), _TOGETHER):
            entries = map(now.find_key, keys[first : first + _TOGETHER])
            self._add([opened for entry in entries if (opened := _opened(now, entry)) is not None], len(keys))
        self._change = now.last_change

    def _add(self, documents: Sequence[OpenDocument], total: int) -> None:
        memories = [document.memory for document in documents]
        needed = self.nbytes + sum(map(self._on_device.bank.bytes_of, memories))
        self._check_room(needed, len(self.documents) + len(documents), total)
        if memories:
            for document, place in zip(documents, self._on_device.bank.add(memories), strict=True):
                self.documents[key_of(document.name)] = _Banked(document, place)
                if self._words is not None:
                    self._words.update(_words_of(document))
            self._written += len(memories)

    def _check_room(self, needed: int, documents: int, total: int | None = None) -> None:
        """Refuse more bytes than there are, needed for some of all documents."""
        if needed > self._most:
            fit = int(self._most / needed * documents)
            which = f"the {total or documents:,} documents do not fit into the memory of {self._device}"
            raise DeviceError(f"{which}: about {fit:,} do", "ask the library itself, or split it")

    def words(self) -> Counter[str]:
        """In how many documents each word is; those without a text count as the word ""."""
        with self.lock:
            if self._words is None:
                self._words = Counter()
                for banked in self.documents.values():
                    self._words.update(_words_of(banked.document))
            return self._words

    def known_words(self, change: int) -> dict[str, bool]:
        """Which words documents have, as far as questions asked, as of a change of the library."""
        with self.lock:
            if self._known[0] != change or len(self._known[1]) > _KNOWN:
                self._known = change, {}
            return self._known[1]

    def search_index(self, index: SearchIndex) -> "DeviceIndex":
        """An index on the device, as it is now."""
        from attar.search.fast_index import DeviceIndex

        if self._search is None or self._search.index is not index:
            self._search = None
            with index.rows() as rows:
                self._check_room(self.nbytes + DeviceIndex.bytes_of(rows.table), len(rows.table))
            encoder = self._on_device.questions.network.encoder
            self._search = DeviceIndex(index, encoder, self._device)
        self._search.refresh()
        return self._search


class BankShard(OpenedShard):
    """The only shard of a library whose documents are on a device."""

    def __init__(self, shard: OpenedShard, bank: DocumentBank) -> None:
        vars(self).update(vars(shard))
        self._bank = bank
        self._compared: Compared | None = None

    def moments(self, asked: Sequence[CorpusQuery]) -> list[Standards]:
        """All signatures are compared exactly: `nearest` is not asked for."""
        with self._bank.lock:
            self._compared = self._bank.search_index(self._index).compare(asked)
            return self._compared.standards()

    def best(
        self,
        asked: Sequence[CorpusQuery],
        standards: Sequence[Standards],
        count: int,
        within: Subset | None = None,
    ) -> list[list[RankedDocument]]:
        compared = self._compared
        assert compared is not None  # made by `moments`
        subset = self._subsets.keys(self._now, within) if within else None
        with self._bank.lock:
            scores, rows = compared.best(standards, count + _SPARE, subset)
            ranked = [
                [self._ranked(compared.table, row, score) for row, score in zip(*found, strict=True)]
                for found in zip(rows, scores, strict=True)
            ]
        return [best_of([filter(None, of_question)], count) for of_question in ranked]

    def _ranked(self, table: "SignatureTable", row: int, score: float) -> RankedDocument | None:
        """A row as a document; None if it has changed since."""
        key = table.keys[row]
        banked = self._bank.documents.get(key)
        # A damaged document has an entry, and its rank.
        entry = self._now.find_key(key) if banked is None else banked.document.entry
        if entry is None or entry.changed != table.changed(row):
            return None
        return RankedDocument(score, key, entry.name, entry.digest, entry.tokens)

    def _known_words(self, words: Sequence[str], *, if_many: bool = True) -> set[str]:
        """Kept until the library changes, but for other spellings."""
        if not if_many:
            return super()._known_words(words, if_many=False)
        known = self._bank.known_words(self._now.last_change)
        found = super()._known_words([word for word in words if word not in known])
        known.update((word, word in found) for word in words if word not in known)
        return {word for word in words if known[word]}

    def answers(
        self, questions: Sequence[str], names: Sequence[Sequence[str]], top: int | None, look: int | None
    ) -> list[dict[str, list[Answer]]]:
        pairs = [(at, name) for at, of_question in enumerate(names) for name in of_question]
        asked = self._bank.ask_each(
            [name for _, name in pairs], [questions[at] for at, _ in pairs], top=top, look=look
        )
        answers: list[dict[str, list[Answer]]] = [{} for _ in questions]
        for (at, name), result in zip(pairs, asked, strict=True):
            if isinstance(result, Asked):  # others are damaged, or gone
                answers[at][name] = result.answers
        return answers

    def _spellings(self, word: str) -> set[str]:
        """Those that are a word of a text, or a word piece: of others no document has any."""
        words, pieces = self._bank.words(), self._reader.tokenizer.whole_words
        near = super()._spellings(word)
        if is_number(word) or words[""]:
            return near
        return {spelling for spelling in near if words[spelling] or spelling in pieces}

    def _open(self, name: str) -> OpenDocument | None:
        banked = self._bank.documents.get(key_of(name))
        return None if banked is None else banked.document


def _words_of(document: OpenDocument) -> set[str]:
    return {""} if document.text is None else letter_words(document.text)


class _OnDevice:
    """What a bank has on its device."""

    def __init__(self, reader: Reader, device: "torch.device") -> None:
        import torch

        from attar.reader.fast_bank import DeviceQuestions, DeviceSpans, PhraseBank

        self.bank = PhraseBank(reader.options.size, device)
        self.spans = DeviceSpans(reader.parts, device)
        self._tokens, self.questions = reader.questions, DeviceQuestions(reader.parts, device)
        self._table = torch.from_numpy(reader.questions.words).to(device)

    def look_up(self, questions: Sequence[str], places: "Sequence[BankPlace]") -> list[KnownQuestion]:
        """What is known of questions once they are encoded and looked up in their documents."""
        # One that several documents are asked is encoded once.
        distinct = {question: at for at, question in enumerate(dict.fromkeys(questions))}
        pieces = self._tokens.pieces([without_preface(question) for question in distinct])
        order = np.array([distinct[question] for question in questions])
        encoded = self.questions.encode(pieces)
        if len(distinct) < len(questions):
            encoded, pieces = encoded.at(order), [pieces[at] for at in order.tolist()]
        found = self.bank.look_up(places, encoded, self._table)
        rows = zip(questions, pieces, *encoded.arrays(), *found, strict=True)
        return [KnownQuestion(*row) for row in rows]


def _opened(now: Snapshot, entry: DocumentEntry | None) -> OpenDocument | None:
    """A document, decoded; None of a damaged one."""
    if entry is None:
        return None
    try:
        return OpenDocument.read(now, entry)
    except (RecordError, UnknownDocumentError):
        return None


def _free_memory(device: "torch.device") -> int:
    import torch

    if device.type != "cuda":
        return 2**62
    free, _ = torch.cuda.mem_get_info(device)
    return max(0, free - _ROOM)
