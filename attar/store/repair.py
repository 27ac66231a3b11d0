"""Repairing a store: what can be read is kept, in a new file; what cannot is put aside, with its names and reasons.

The old file is read page by page without LMDB, which a damaged one could crash. The folder `repair-N` inside the
store's gets the old file and everything that was put aside; then the new file replaces the old one, atomically.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import lmdb
import msgspec

from attar.errors import AttarError, BusyError, FormatError, RecordError, quoted
from attar.files import lock_file, sync_folder
from attar.memory.memory import Memory
from attar.store import format
from attar.store.format import HEADER_KEY, LONGEST_PLAIN_KEY, DocumentEntry, Header, Kind, Record, key_of
from attar.store.lmdb_env import COPY, DATA, no_store, store_errors
from attar.store.pages import PageFile, Place, page_faults
from attar.store.signatures import SEARCH_KINDS, check_search_value
from attar.store.validation import Fault, check_record, entry_data, name_in

# Bytes per transaction of the new file.
_BATCH_BYTES = 2**26
# Faults of pages that are reported one by one.
_SHOWN_PAGES = 50
_NOUNS: dict[Kind, str] = {b"f": "entry", b"m": "memory", b"t": "text"}
_NO_SIGNATURE = "left out: search makes it again, if the text is kept"
_NO_STATISTICS = "left out: search uses the reader's; attar store refit fits them again"


@dataclass
class Repair:
    """What a repair did: how many documents are kept whole, and what became of the others, one line each."""

    documents: int = 0
    faults: list[Fault] = field(default_factory=list)
    folder: Path | None = None  # where the old file and what was put aside are; None if the store was intact


def repair_store(path: str | os.PathLike[str], timeout: float = 0.0) -> Repair:
    """Keep what can be read of a store and put aside the rest; an intact store is not changed.

    No other process may have the store open. Waits at most `timeout` seconds for that.
    """
    folder = Path(path).absolute()
    data = folder / DATA
    if not data.is_file():
        raise no_store(folder)
    with store_errors(folder), _alone(folder, timeout), open(data, "rb") as file:
        done = Repair()
        pages = PageFile(file.fileno(), os.fstat(file.fileno()).st_size)
        salvage = _Salvage(pages, done)
        partial = folder / "repair.partial"
        shutil.rmtree(partial, ignore_errors=True)  # of a repair that was killed
        partial.mkdir()
        try:
            salvage.write(folder / COPY, partial)
            lines = pages.faults + pages.misplaced or page_faults(data)
            if not done.faults and not lines:
                return done
            done.faults += [Fault(None, line) for line in lines[:_SHOWN_PAGES]]
            if len(lines) > _SHOWN_PAGES:
                done.faults.append(Fault(None, f"{len(lines) - _SHOWN_PAGES:,} more faults of pages"))
            done.folder = _finish(folder, partial, done)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            (folder / COPY).unlink(missing_ok=True)
    return done


@contextlib.contextmanager
def _alone(folder: Path, timeout: float) -> Iterator[None]:
    """Keep every other process away from a store."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        if not lock_file(lock, fcntl.LOCK_EX, time.monotonic() + timeout):
            came = "another process that has it open, or this one"
            raise BusyError.expected(f"store {folder}", "exclusive access", came, "end that first")
        yield
    finally:
        os.close(lock)


def _finish(folder: Path, partial: Path, done: Repair) -> Path:
    """Put the old file aside with a report, and the new file in its place; until then the store is as it was."""
    number = 1
    while (aside := folder / f"repair-{number}").exists():
        number += 1
    try:
        os.link(folder / DATA, partial / DATA)
    except OSError:  # a file system without hard links
        shutil.copyfile(folder / DATA, partial / DATA)
    report = {"documents": done.documents, "faults": [vars(fault) for fault in done.faults]}
    (partial / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    sync_folder(partial)
    os.rename(partial, aside)
    os.chmod(folder / COPY, (folder / DATA).stat().st_mode & 0o777)
    os.replace(folder / COPY, folder / DATA)
    sync_folder(folder)
    return aside


class _Salvage:
    """The documents of a damaged file, one at a time."""

    def __init__(self, pages: PageFile, done: Repair) -> None:
        self._pages, self._done = pages, done
        self._values: dict[bytes, Place] = {}
        self._map_bytes = 2 * pages.size + 2**24
        metas = pages.metas()
        if len(metas) < 2:
            pages.faults.append("one of the two meta pages is damaged: the last change may be lost")
        # The last state that is in the file; if none of it can be found, the one before, which LMDB keeps.
        for meta in metas:
            self._values = pages.values(meta)
            if self._values:
                break
        else:
            pages.faults.append("no page leads to any value")
        self._correct_keys()

    def _correct_keys(self) -> None:
        """Move entries to the keys of their names: an entry has a checksum, its key has none."""
        for key in [key for key in self._values if key[:1] == b"f"]:
            with contextlib.suppress(AttarError):
                name = format.read_entry(self._value(key), "").name
                if (right := b"f" + key_of(name)) != key and right not in self._values:
                    self._values[right] = self._values.pop(key)
                    self._done.faults.append(Fault(name, f"document {quoted(name)}: its key was {key[1:]!r}"))

    def write(self, target: Path, aside: Path) -> None:
        """Write what is readable to a new LMDB file, and what is not to files of a folder."""
        keys = sorted({key[1:] for key in self._values if key[:1] in _NOUNS and len(key) > 1})
        target.unlink(missing_ok=True)
        with lmdb.open(str(target), subdir=False, lock=False, map_size=self._map_bytes, sync=False) as new:
            header = self._header(keys)
            unwritten = 0
            changed: dict[bytes, int] = {}
            transaction = new.begin(write=True)
            for number, key in enumerate(keys, 1):
                record = self._document(key, header.reader, aside, number)
                if record is None:
                    continue
                header = header.plus(record.entry)
                changed[key_of(record.name)] = record.entry.changed
                for kind, payload in _payloads(record):
                    transaction.put(kind + key_of(record.name), format.wrap(kind, payload))
                    unwritten += len(payload)
                if unwritten > _BATCH_BYTES:
                    transaction.commit()
                    transaction, unwritten = new.begin(write=True), 0
            self._check_totals(header)
            for key, value in self._search_values(changed):
                transaction.put(key, value)
            transaction.put(HEADER_KEY, format.wrap(b"a", format.encode(header)))
            transaction.commit()
            new.sync(True)
        self._done.documents = header.documents

    def _search_values(self, changed: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield what search needs of the documents that are kept; `changed` has their times of change.

        Reports the values that cannot be read and those under unknown keys. Changes are not kept: they tell caches
        of open stores what is new, and no process has this one open.
        """
        named = {fault.name for fault in self._done.faults}
        for key in sorted(self._values):
            kind, of = cast(Kind, key[:1]), key[1:]
            if key == HEADER_KEY or (kind in _NOUNS and of):
                continue
            is_signature = kind == b"s" and of != b""
            name = name_in(of) if is_signature else None
            try:
                if kind not in SEARCH_KINDS:
                    raise RecordError.expected(f"key {key[:60]!r}", "one of this version", "an unknown one")
                check_search_value(kind, of, self._value(key), changed.get(of))
            except AttarError as fault:
                if name is None or name not in named:  # that of a lost document goes with it
                    what = _NO_SIGNATURE if is_signature else _NO_STATISTICS if kind == b"s" else "left out"
                    self._done.faults.append(Fault(name, f"{fault} ({what})"))
                continue
            if kind == b"s":
                yield key, self._value(key)

    def _header(self, keys: list[bytes]) -> Header:
        """The store's header without its totals; if it is lost, made from the memories."""
        try:
            header = format.read_header(self._value(HEADER_KEY), "store")
            return Header(header.reader, header.dtype, header.created)
        except AttarError as fault:
            self._done.faults.append(Fault(None, f"{fault} (made again from the memories)"))
        kinds: Counter[tuple[str, str]] = Counter()
        for key in keys:
            with contextlib.suppress(AttarError):
                memory = Memory.from_bytes(self._payload(b"m", key))
                kinds[memory.reader, memory.dtype] += 1
        reader, dtype = kinds.most_common(1)[0][0] if kinds else (None, "float32")
        return Header(reader, dtype, format.now())

    def _check_totals(self, counted: Header) -> None:
        with contextlib.suppress(AttarError):
            header = format.read_header(self._value(HEADER_KEY), "store")
            lost = header.documents - counted.documents
            named = {fault.name for fault in self._done.faults} - {None}
            if lost > len(named):
                self._done.faults.append(Fault(None, f"{lost - len(named):,} documents that cannot be found"))
            elif counted != header and not self._done.faults:
                self._done.faults.append(
                    Fault(None, f"header: expected {counted}, got {header} (counted again)")
                )

    def _document(self, key: bytes, reader: str | None, aside: Path, number: int) -> Record | None:
        """A document with all of its parts that can be read; None without its memory. Reports the others."""
        lost: dict[Kind, AttarError] = {}
        parts: dict[Kind, bytes] = {}
        for kind in _NOUNS:
            if kind + key in self._values:
                try:
                    parts[kind] = self._payload(kind, key)
                    if kind == b"f":
                        format.read_entry(self._value(b"f" + key), name_in(key))
                except AttarError as fault:
                    parts.pop(kind, None)
                    lost[kind] = fault
        try:
            record = _assemble(key, parts, lost, pages_lost=bool(self._pages.faults))
            check_record(record, reader)
            entry_data(record.entry)
        except AttarError as fault:
            self._report(key, {**dict.fromkeys(parts, fault), **lost}, aside, number, "put aside")
            return None
        if lost:
            self._report(key, lost, aside, number, "the rest is kept")
        return record

    def _report(self, key: bytes, lost: dict[Kind, AttarError], aside: Path, number: int, what: str) -> None:
        for kind in (kind for kind in lost if kind + key in self._values):
            (aside / f"{number:06}.{_NOUNS[kind]}").write_bytes(self._value(kind + key))
        reasons = dict.fromkeys(map(str, lost.values()))
        name = name_in(key)
        line = f"document {quoted(name)}, number {number:06}: {what}: {'; '.join(reasons)}"
        self._done.faults.append(Fault(name, line))

    def _payload(self, kind: Kind, key: bytes) -> bytes:
        return bytes(format.unwrap(kind, self._value(kind + key), name_in(key)))

    def _value(self, key: bytes) -> bytes:
        place = self._values.get(key)
        return b"" if place is None else self._pages.read(place)


def _assemble(key: bytes, parts: dict[Kind, bytes], lost: dict[Kind, AttarError], pages_lost: bool) -> Record:
    """A document of its parts; an entry that is lost is made again from the memory, without title and dates.

    Not if no page is lost: then it is the memory's key that has changed, and its name is not known.
    """
    if b"m" not in parts:
        raise lost.get(b"m") or RecordError.expected(f"memory of {quoted(name_in(key))}", "one", "none")
    memory, text = parts[b"m"], parts.get(b"t")
    if text is not None:
        try:
            format.decompress(text, name_in(key))
        except FormatError as fault:
            lost[b"t"], text = fault, None
    text_bytes = None if text is None else len(text)
    if b"f" in parts:
        entry = format.decode_entry(parts[b"f"])
    elif b"f" in lost or pages_lost:
        lost.setdefault(b"f", RecordError.expected(f"entry of {quoted(name_in(key))}", "one", "none"))
        entry = _made_again(key, memory, text)
    else:
        raise RecordError.expected(f"entry of {quoted(name_in(key))}", "one", "none")
    if entry.text_bytes is not None and text is None and b"t" not in lost:
        lost[b"t"] = RecordError.expected(f"text of {quoted(entry.name)}", "one", "none")
    return Record(msgspec.structs.replace(entry, text_bytes=text_bytes), memory, text)


def _made_again(key: bytes, memory_data: bytes, text: bytes | None) -> DocumentEntry:
    memory, now = Memory.from_bytes(memory_data), format.now()
    if len(key) > LONGEST_PLAIN_KEY:
        raise RecordError.expected(f"name of {quoted(name_in(key))}", "the whole of it", "its beginning")
    try:
        name = key.decode()
    except UnicodeDecodeError:
        raise RecordError.expected(
            f"name of {quoted(name_in(key))}", "text in UTF-8", "other bytes"
        ) from None
    digest = b"" if text is None else format.digest_of(format.decompress(text, name))
    kind = memory.tokens, memory.form, memory.dtype
    return DocumentEntry(name, "", digest, now, now, *kind, len(memory_data))


def _payloads(record: Record) -> Iterator[tuple[Kind, format.Buffer]]:
    yield b"f", entry_data(record.entry)
    yield b"m", record.memory_data
    if record.text_data is not None:
        yield b"t", record.text_data
