"""DocumentBank: the documents of a library on a GPU, for extreme loads of questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import torch

from attar.errors import AttarError, DeviceError, OptionError, RecordError, UnknownDocumentError
from attar.library.documents import OpenDocument, suggesting, with_places
from attar.reader.fast_bank import BankPlace, DeviceReader, PhraseBank
from attar.results import Answer, Asked, check_asked, check_top, paired
from attar.store.records import DocumentEntry, key_of, unpack_parts
from attar.store.transactions import Snapshot

if TYPE_CHECKING:
    from attar.library.library import Library

# Documents that are brought to the device together.
_TOGETHER = 1_024
# What is left of a device's memory for questions.
_ROOM = 2**31


@dataclass(frozen=True, eq=False)
class _Banked:
    document: OpenDocument
    place: BankPlace


class DocumentBank:
    """Answers questions as its library does, but for rounding: many at a time, on a device.

    It follows the library: what is added, replaced or removed, by any process, is so for the next question. If the
    device has too little memory, it is refused with the number of documents that fit.
    """

    def __init__(self, library: "Library", device: str = "cuda", *, memory: int | None = None) -> None:
        """Bring all documents to the device; `memory` caps the bytes that they may take there."""
        self._device = torch.device(device)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError("there is no GPU that PyTorch can use", "ask the library itself")
        self._library = library
        self._most = memory if memory is not None else _free_memory(self._device)
        self._lock = Lock()
        self._begin()
        with self._lock, library.store.snapshot() as now:
            self._refresh(now)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def nbytes(self) -> int:
        """The bytes of all documents on the device."""
        return self._bank.nbytes

    def ask(self, name: str, question: str, *, top: int | None = 5, look: int | None = None) -> list[Answer]:
        """As `Library.ask`."""
        return self.ask_many(name, [question], top=top, look=look)[0]

    def ask_many(
        self,
        names: str | Sequence[str],
        questions: str | Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """As `Library.ask_many`."""
        about, asked = paired(names, questions)
        results = self.ask_each(about, asked, top=top, look=look)
        with suggesting(self._library.store, about):
            for result in results:
                if isinstance(result, AttarError):
                    raise result
        return [result.answers for result in results if isinstance(result, Asked)]

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        """As `Library.ask_each`."""
        check_top(top)
        with self._lock, self._library.store.snapshot() as now:
            self._refresh(now)
            reader, bank, documents = self._reader, self._bank, self._documents
            results: list[Asked | AttarError | None] = [
                self._fault(now, name, question) for name, question in zip(names, questions, strict=True)
            ]
            asked = [at for at, result in enumerate(results) if result is None]
            banked = [documents[key_of(names[at])] for at in asked]
        if not asked:
            return [result for result in results if result is not None]
        opened = [each.document for each in banked]
        memories = [document.memory for document in opened]
        queries, scores = reader.known_scores(
            bank, [each.place for each in banked], memories, [questions[at] for at in asked]
        )
        answers = reader.ranked_answers(
            memories,
            queries,
            scores,
            top=top,
            texts=[document.text for document in opened],
            look=reader.look_of(look),
        )
        for at, document, ranked in zip(asked, opened, answers, strict=True):
            results[at] = Asked(with_places(ranked, document.parts), document.entry.memory_bytes)
        return [result for result in results if result is not None]

    def _fault(self, now: Snapshot, name: str, question: str) -> AttarError | None:
        """What is wrong with a question, if anything is."""
        try:
            check_asked("question", question)
            if key_of(name) not in self._documents:
                now.memory(now.entry(name))  # says what is the matter with it
                return RecordError(f"document {name!r} cannot be read", "add it again")
        except AttarError as fault:
            return fault
        return None

    def _begin(self) -> None:
        reader = self._library.reader
        if reader.form != "phrases":
            raise OptionError("a bank has the documents of a reader of phrases", "ask the library itself")
        self._reader = DeviceReader(reader, self._device)
        self._bank = PhraseBank(reader.options.size, self._device)
        self._documents: dict[bytes, _Banked] = {}
        self._written = self._change = 0

    def _refresh(self, now: Snapshot) -> None:
        """Take over what changed in the library since the last time."""
        if now.header.reader not in (None, self._reader.fingerprint):
            self._begin()  # it was moved to another reader
        if self._change == now.signatures.change and self._written:
            return
        changed = now.signatures.changed_since(self._change) if self._written else None
        # Removed documents keep their place until there are more of them than others.
        if changed is None or self._written > 2 * len(self._documents) + _TOGETHER:
            self._begin()
            changed = set(now.signatures.document_keys())
        for key in changed:
            self._documents.pop(key, None)
        keys = sorted(changed)
        for first in range(0, len(keys), _TOGETHER):
            entries = map(now.signatures.entry, keys[first : first + _TOGETHER])
            self._add([opened for entry in entries if (opened := _opened(now, entry)) is not None], len(keys))
        self._change = now.signatures.change

    def _add(self, documents: Sequence[OpenDocument], total: int) -> None:
        memories = [document.memory for document in documents]
        needed = self._bank.nbytes + sum(map(PhraseBank.bytes_of, memories))
        if needed > self._most:
            fit = int(self._most / max(needed, 1) * (len(self._documents) + len(documents)))
            message = (
                f"the {total:,} documents do not fit into the memory of {self._device}: about {fit:,} do"
            )
            raise DeviceError(message, "ask the library itself, or split it")
        if memories:
            for document, place in zip(documents, self._bank.add(memories), strict=True):
                self._documents[key_of(document.name)] = _Banked(document, place)
            self._written += len(memories)


def _opened(now: Snapshot, entry: DocumentEntry | None) -> OpenDocument | None:
    """A document, decoded; None of a damaged one."""
    if entry is None:
        return None
    try:
        parts = unpack_parts(entry.parts, entry.name)
        return OpenDocument(b"", entry, now.memory(entry), now.text(entry), parts)
    except (RecordError, UnknownDocumentError):
        return None


def _free_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 2**62
    free, _ = torch.cuda.mem_get_info(device)
    return max(0, free - _ROOM)
