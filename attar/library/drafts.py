"""Documents to be added: read from files and folders, checked, hashed, in batches that take about two seconds."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from attar.errors import AttarError, DtypeError, FormatError, OptionError, quoted
from attar.files import read_named_file, replace_surrogates
from attar.memory.memory import Memory
from attar.progress import BYTES, Progress, ignore_progress
from attar.results import MOST_LABELS, Change, FolderChanges, check_labels
from attar.search.signatures import Collector, Sums
from attar.search.statistics import Projection
from attar.store.records import (
    DocumentEntry,
    Fault,
    Parts,
    Record,
    digest_of,
    key_of,
    pack_parts,
    unpack_parts,
)
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.documents.extracted import OnBad, SourceDocument
    from attar.documents.following import ReadFile
    from attar.documents.sources import FoundFiles, SourceFile
    from attar.documents.workers import FileReader
    from attar.library.library import Library
    from attar.options import FileLimits
    from attar.reader.reader import Reader

# The most seconds for which documents are waited for, and the most characters that are read, before they are written:
# what a kill loses. Two cores read so many characters in about three seconds.
_SECONDS = 2.0
_CHARACTERS = 2**17
# A document that another process has read takes this much less time.
_IF_READ = 64


class Encoded(NamedTuple):
    """What reading a text makes of it: its memory, and the sums of its signature with what they were made with."""

    memory: Memory
    sums: Sums | None
    statistics: bytes


class Draft(NamedTuple):
    """A document that can be added, checked: what the store will know of it, its text, and that in UTF-8.

    Tags and metadata are the caller's; None: those that the document has already. `encoded` is there if another process
    has read the text.
    """

    entry: DocumentEntry
    text: str
    data: bytes
    tags: tuple[str, ...] | None = None
    metadata: dict[str, str] | None = None
    encoded: Encoded | None = None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def digest(self) -> bytes:
        return self.entry.digest

    @classmethod
    def of(
        cls,
        name: str,
        text: str,
        title: str = "",
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> "Draft":
        """Check and hash a document; without tags or metadata it keeps those that it has.

        >>> Draft.of("emma", " ")
        Traceback (most recent call last):
        attar.errors.FormatError: the text of 'emma' is blank; leave it out
        """
        check_string("name", name)
        check_string("title", title)
        check_string(f"text of {quoted(name)}", text)
        if not text or text.isspace():
            raise FormatError(f"the text of {quoted(name)} is {'blank' if text else 'empty'}", "leave it out")
        check_labels(() if tags is None else tags, {} if metadata is None else metadata)
        draft = cls._hashed(DocumentEntry(name=name, title=title), text).tagged(tags)
        return draft._replace(metadata=None if metadata is None else dict(metadata))

    @classmethod
    def made(cls, document: "tuple[str, str] | Draft") -> "Draft":
        """A draft as it is, or one of a name and a text."""
        return document if isinstance(document, Draft) else cls.of(*document)

    def tagged(self, tags: Sequence[str] | None) -> "Draft":
        """The document with these tags, which were checked; None: those that it has."""
        return self._replace(tags=None if tags is None else tuple(dict.fromkeys(tags)))

    def renamed(self, name: str) -> "Draft":
        """The document under another name."""
        return self._replace(entry=replace(self.entry, name=name))

    @classmethod
    def of_source(cls, document: "SourceDocument", source: str = "") -> "Draft":
        """Hash a document of a file, whose text is not blank; `source` is the file's path, if it stays there."""
        entry = DocumentEntry(
            name=document.name,
            title=document.title,
            source=source,
            date=document.date,
            parts=pack_parts(document.parts),
            incomplete=document.incomplete,
        )
        return cls._hashed(entry, document.text)

    @classmethod
    def _hashed(cls, entry: DocumentEntry, text: str) -> "Draft":
        key_of(entry.name)  # refuses one that no document can have
        try:
            data = text.encode()
        except UnicodeEncodeError:
            message = f"the text of {quoted(entry.name)} has half of a surrogate pair"
            raise OptionError(message, "decode it as UTF-8") from None
        return cls(replace(entry, digest=digest_of(data)), text, data)


def check_string(what: str, value: object) -> None:
    """Refuse a value that is not a string."""
    if not isinstance(value, str):
        raise DtypeError.expected(what, "a string", type(value).__name__)


def encode_texts(
    reader: "Reader",
    projection: Projection | None,
    texts: Sequence[str],
    *,
    progress: Progress = ignore_progress,
) -> list[Encoded]:
    """Read texts: their memories, and the sums that their signatures are made of, from the same pass."""
    from attar.reader.encoding import device_errors  # loaded with the reader, and not before

    if projection is None:
        return [Encoded(memory, None, b"") for memory in reader.read_many(texts, progress=progress)]
    with device_errors(reader.device):
        if reader.device.type == "cpu":
            collector = Collector(projection)
        else:
            from attar.search.fast_index import FastCollector  # needs torch

            collector = FastCollector(projection, reader.device)
        memories = reader.read_many(texts, progress=progress, on_states=collector)
        collector.finish()
    return [Encoded(memory, collector.of(at), projection.digest) for at, memory in enumerate(memories)]


def batches(drafts: Iterable[Draft], size: int, most_characters: int = _CHARACTERS) -> Iterator[list[Draft]]:
    """Yield batches of at most `size` documents, fewer if they are long or slow to come; no name twice in one.

    If the source of documents fails, those before the failure are yielded first.

    >>> drafts = [Draft.of(name, "Ann left.") for name in ("a", "b", "c", "c", "d")]
    >>> ["".join(draft.name for draft in batch) for batch in batches(drafts, 2)]
    ['ab', 'c', 'cd']
    """
    batch: dict[str, Draft] = {}
    characters, began = 0, time.monotonic()
    try:
        for draft in drafts:
            length = len(draft.text) // (1 if draft.encoded is None else _IF_READ)
            full = len(batch) >= size or characters + length > most_characters
            if batch and (full or draft.name in batch or time.monotonic() - began > _SECONDS):
                yield list(batch.values())
                batch, characters, began = {}, 0, time.monotonic()
            batch[draft.name] = draft
            characters += length
    except AttarError:
        if batch:
            yield list(batch.values())
        raise
    if batch:
        yield list(batch.values())


def read_files(
    files: "Sequence[SourceFile]",
    on_bad: "OnBad | None" = None,
    progress: Callable[[int], None] = lambda done: None,
    read: "dict[str, ReadFile] | None" = None,
    *,
    reader: "FileReader | None" = None,
) -> Iterator[Draft]:
    """Yield the documents of files; `progress` is called with the number of bytes that are read.

    A file that cannot be read raises, or `on_bad` is called with its error and the others are read. `read` gets the
    files that were read, by their paths, for `gone_documents`. `reader` has the limits of what reading a file may cost.
    """
    # Imported here: whoever adds no files does not wait for what reads them.
    from attar.documents.following import ReadFile
    from attar.documents.workers import FileReader

    if reader is None:
        with FileReader() as reader:
            yield from read_files(files, on_bad, progress, read, reader=reader)
        return
    before = 0
    for file in files:
        inside, names, faults = 0, set[str](), list[AttarError]()
        source = os.path.abspath(file.path)

        def report(fault: AttarError, faults: list[AttarError] = faults) -> None:
            faults.append(fault)
            if on_bad is None:
                raise fault
            on_bad(fault)

        documents = reader.read(file, report)
        if replace_surrogates(source) != source:  # no document can say that it comes from there
            report(FormatError(f"{source}: the name of the file is not in UTF-8", "rename it"))
            documents = iter(())
        for document in documents:
            try:
                draft = Draft.of_source(document, source)
            except AttarError as fault:
                report(FormatError(f"{file.path}: {fault}"))
                continue
            names.add(draft.name)
            yield draft
            # An estimate for compressed files and JSON lines.
            inside = min(inside + len(document.text), file.bytes)
            progress(before + inside)
        if read is not None and not faults:
            read[source] = ReadFile(file.name, names)
        before += file.bytes
        progress(before)


def read_upload(files: "FileReader", name: str, data: bytes, source: str = "") -> Iterator[Draft]:
    """Yield the documents of a file that was sent; `source` is where it comes from, if that is known."""
    return (Draft.of_source(document, source) for document in files.read_bytes(name, data))


def appended_entry(before: Record, added: Draft, joint: int) -> DocumentEntry:
    """What is known of a document after a text was appended: its file is no longer the whole of it."""
    entry, length = before.entry, before.memory.phrases.characters
    parts, new = unpack_parts(entry.parts, entry.name), unpack_parts(added.entry.parts, added.name)
    if parts or new:
        # The pages of two files would have the same labels.
        labelled = [(at, f"appended, {label}" if label else "") for at, label in new] if parts else new
        parts += _shifted(labelled, length + (joint if length else 0))
    return replace(entry, source="", digest=b"", parts=pack_parts(parts))


def merged_entry(name: str, records: Sequence[Record], joint: int) -> DocumentEntry:
    """What is known of merged documents: each one is a part, and so are its parts; tags are those of all."""
    parts: list[tuple[int, str]] = []
    start = 0
    for record in records:
        # The text need not be kept.
        document, length = record.name, record.memory.phrases.characters
        labelled = [
            (at, f"{document}, {label}" if label else document)
            for at, label in unpack_parts(record.entry.parts, document)
        ]
        parts += _shifted(labelled, start, document)
        start += length + (joint if start + length else 0)
    missing = [f"{record.name}: {record.entry.incomplete}" for record in records if record.entry.incomplete]
    tags = tuple(dict.fromkeys(tag for record in records for tag in record.entry.tags))[:MOST_LABELS]
    return DocumentEntry(name=name, parts=pack_parts(parts), incomplete="; ".join(missing), tags=tags)


def _shifted(parts: Parts, characters: int, first: str = "") -> list[tuple[int, str]]:
    """The parts of a text that begins later in another; what stands before them is a part, too.

    >>> _shifted([(0, "page 1")], 50), _shifted([(9, "page 2")], 50, "a.pdf")
    ([(50, 'page 1')], [(50, 'a.pdf'), (59, 'page 2')])
    """
    before = [] if parts and parts[0][0] == 0 else [(0, first)]
    return [(start + characters, label) for start, label in (*before, *parts)]


OnChange = Callable[[Change], None] | None
OnRefused = Callable[[AttarError], None] | None


def add_files(
    opened: "Callable[[], Library]",
    found: "FoundFiles",
    *,
    files: "FileReader | None" = None,
    tags: Sequence[str] | None = None,
    replace: bool = False,
    sync: bool = False,
    on_change: OnChange = None,
    on_refused: OnRefused = None,
    progress: Progress = ignore_progress,
) -> FolderChanges:
    """Add files that were found to a library, which is opened when there is a document to add, or to remove.

    Tags were checked. What cannot be read or added is refused, and the others are added. With `sync`, documents of the
    folders whose files are gone are removed. `progress` gets the bytes of files that are read, and the tokens of each
    batch.
    """
    refused: list[str] = []
    read: dict[str, ReadFile] = {}
    size = sum(file.bytes for file in found.files)

    def refuse(fault: AttarError) -> None:
        refused.append(str(fault))
        if on_refused is not None:
            on_refused(fault)

    drafts = read_files(found.files, refuse, lambda done: progress(BYTES, done, size), read, reader=files)
    if tags is not None:
        drafts = (draft.tagged(tags) for draft in drafts)
    changes: list[Change] = []
    removed: list[str] = []
    first = next(drafts, None)
    if first is not None or sync:
        library = opened()
        changes = library.add_many(
            chain([] if first is None else [first], drafts),
            replace=replace,
            on_change=on_change,
            on_refused=refuse,
            progress=progress,
        )
        removed = remove_gone(library.store, found, read) if sync else []
    return FolderChanges(changes, removed, refused, [f"{file.path}: {file.reason}" for file in found.skipped])


def follow(
    opened: "Callable[[], Library]",
    folder: str | os.PathLike[str],
    *,
    limits: "FileLimits | None" = None,
    tags: Sequence[str] | None = None,
    on_change: OnChange = None,
    stop: threading.Event | None = None,
) -> Iterator[FolderChanges]:
    """Bring a library in line with a folder, then follow its changes; a folder that is not there is refused at once."""
    from attar.documents.following import watch_folder
    from attar.documents.workers import FileReader

    def changes(found: "FoundFiles") -> FolderChanges:
        with FileReader(limits) as files:
            return add_files(opened, found, files=files, tags=tags, sync=True, on_change=on_change)

    if tags is not None:
        check_labels(tags, {})
    pictures = limits is None or limits.ocr != "never"
    return map(changes, watch_folder(folder, pictures=pictures, stop=stop))


def remove_gone(store: Store, found: "FoundFiles", read: "dict[str, ReadFile]") -> list[str]:
    """Remove the documents of folders whose files are gone; returns their names."""
    from attar.documents.following import KeptDocument, gone_documents

    kept = (
        KeptDocument(entry.name, entry.source) for entry in store.documents() if not isinstance(entry, Fault)
    )
    gone = gone_documents(kept, found.folders, read)
    removed = []
    if gone:
        with store.transaction() as changes:
            for name in gone:
                if changes.find(name) is not None:  # else another process has removed it meanwhile
                    changes.remove(name)
                    removed.append(name)
    return removed


def file_drafts(
    file: str | os.PathLike[str] | bytes, name: str | None, tags: Sequence[str] | None
) -> list[Draft]:
    """The documents of one file, given as a path or as its bytes and its name."""
    from attar.documents.workers import FileReader

    if tags is not None:
        check_labels(tags, {})
    read = read_named_file(file, name)
    with FileReader() as files:
        drafts = [*read_upload(files, read.name, read.data, read.path)]
    return drafts if tags is None else [draft.tagged(tags) for draft in drafts]
