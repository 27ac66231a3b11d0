"""A library in shards: stores that share a reader, each with the documents whose names hash to it.

A folder with `shards.json`, the manifest, and one store per shard. Each shard is a store like any other; a small
file in it says which shard of which split it is, so that shards of two splits are never mixed up.
"""

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from attar.errors import FormatError, OptionError, ReaderMismatchError, StoreError, writing_to
from attar.files import atomic_file, sync_folder
from attar.library.library import Library
from attar.library.rereading import refit
from attar.progress import Progress, ignore_progress
from attar.results import Refit
from attar.store.records import Fault, Record
from attar.store.store import Store

# In the folder of shards.
MANIFEST = "shards.json"
# In the folder of a shard.
_SHARD = "shard.json"
_FORMAT = 1
_MOST = 65_536
# Records written in one transaction.
_RECORDS = 512
# Bytes of records that wait to be written.
_BYTES = 2**26


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest of a split: its id, and the folder of each shard, relative to the manifest or absolute."""

    format: int
    id: str
    shards: list[str]


class _Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which shard of which split a store is."""

    id: str
    number: int
    count: int


_Kind = TypeVar("_Kind", Manifest, _Shard)


def shard_of(name: str, count: int) -> int:
    """The number of the shard that holds a document; it depends on the name and the number of shards only.

    >>> [shard_of(name, 4) for name in ("emma", "persuasion", "letters/1")]
    [0, 3, 1]
    """
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % count


def is_sharded(path: Path) -> bool:
    """Whether a folder holds a library in shards."""
    return (path / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a library in shards, whose folders need not be on this machine."""
    manifest = _read(folder / MANIFEST, Manifest)
    if manifest.format != _FORMAT:
        raise FormatError(f"{folder / MANIFEST}: format {manifest.format}", "install a newer attar")
    if not 1 <= len(manifest.shards) <= _MOST:
        got = f"{len(manifest.shards):,}"
        raise FormatError.expected(str(folder / MANIFEST), f"1 to {_MOST:,} shards", got)
    return manifest


def check_shard(folder: Path, manifest: Manifest, number: int) -> Path:
    """The folder of a shard, which is there and of this manifest."""
    path, what = folder / manifest.shards[number], f"shard {number} of {folder}"
    if not Store.exists(path):
        remedy = f"bring it back, or correct its path in {MANIFEST}"
        raise StoreError(f"{what}: there is no store at {path}", remedy)
    marked = _read(path / _SHARD, _Shard)
    if marked != _Shard(manifest.id, number, len(manifest.shards)):
        other = " of another split" if marked.id != manifest.id else ""
        message = f"{what}: {path} is shard {marked.number} of {marked.count}{other}"
        raise FormatError(message, "restore the manifest")
    return path


def shard_paths(folder: Path) -> list[Path]:
    """The folders of a library's shards, in order: all there, of this manifest, and of one reader."""
    manifest = read_manifest(folder)
    paths = [check_shard(folder, manifest, number) for number in range(len(manifest.shards))]
    readers: dict[str, Path] = {}
    for path in paths:
        with Store.open(path, create=False, read_only=True) as store:
            if store.reader is not None:
                readers.setdefault(store.reader, path)
    if len(readers) > 1:
        (first, one), (second, other) = list(readers.items())[:2]
        found = f"{one.name} has {first[:12]}, {other.name} {second[:12]}"
        raise ReaderMismatchError(
            f"{folder}: its shards have different readers: {found}", f"attar reread {other}"
        )
    return paths


def split(source: Path, out: Path, into: int, progress: Progress = ignore_progress) -> int:
    """Copy a library, a store or one in shards, into `into` shards, or into one store; returns its documents.

    The source is not changed: one state of it is copied, whatever is written meanwhile. A split that is killed leaves
    nothing at `out`.
    """
    if not 1 <= into <= _MOST:
        raise OptionError.expected("--into", f"1 to {_MOST:,} shards", str(into))
    if out.exists():
        raise OptionError(f"{out} already exists", "choose another --out")
    paths = shard_paths(source) if is_sharded(source) else [source]
    partial = out.with_name(f"{out.name}.partial")
    # What an earlier split left when it was killed.
    shutil.rmtree(partial, ignore_errors=True)
    with writing_to(out, "choose another --out"):
        partial.mkdir(parents=True)
    try:
        count = _copy(paths, partial, into, progress)
        if into > 1:
            _mark(partial, into)
        os.replace(partial if into > 1 else partial / _folder(0), out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(out.absolute().parent)
    return count


def refit_shards(
    folder: Path,
    reader: Path | None,
    *,
    leave_out: bool = False,
    progress: Progress = ignore_progress,
) -> Refit:
    """Fit the statistics of search to the texts of all shards together, and make all signatures again."""
    with contextlib.ExitStack() as stack:
        libraries = [stack.enter_context(Library(path, reader, create=False)) for path in shard_paths(folder)]
        return refit(libraries, leave_out=leave_out, progress=progress)


def _copy(sources: list[Path], folder: Path, into: int, progress: Progress) -> int:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Store.open(path, create=False, read_only=True)) for path in sources]
        stores = [stack.enter_context(Store.open(folder / _folder(number))) for number in range(into)]
        waiting: list[list[Record]] = [[] for _ in stores]
        reader = next((store.reader for store in opened if store.reader is not None), None)
        _copy_statistics(opened, stores)
        copied = waiting_bytes = 0
        for record in _records(opened):
            waiting[shard_of(record.name, into)].append(record)
            waiting_bytes += len(record.memory_data) + len(record.text_data or b"")
            copied += 1
            if copied % _RECORDS == 0 or waiting_bytes > _BYTES:
                _write(stores, waiting, reader)
                waiting_bytes = 0
                progress("documents", copied, sum(map(len, opened)))
        _write(stores, waiting, reader)
        return copied


def _copy_statistics(sources: list[Store], stores: list[Store]) -> None:
    """What signatures are made with; shards of one split have the same."""
    for source in sources:
        with source.snapshot() as now:
            statistics = now.statistics
        if statistics is not None:
            for store in stores:
                with store.transaction() as changes:
                    changes.put_statistics(statistics)
            return


def _records(stores: list[Store]) -> Iterator[Record]:
    """Yield the records of stores, each store in one state."""
    for store in stores:
        with store.snapshot() as now:
            for entry in now.documents():
                if isinstance(entry, Fault):
                    raise StoreError(entry.line, f"attar store repair {store.path}")
                now.check_bytes(entry)
                yield now.record(entry)


def _write(stores: list[Store], waiting: list[list[Record]], reader: str | None) -> None:
    for store, records in zip(stores, waiting, strict=True):
        if records:
            with store.transaction() as changes:
                for record in records:
                    changes.put(record, reader=reader or "")
            records.clear()


def _mark(folder: Path, count: int) -> None:
    """Write the manifest, and into each shard which one it is."""
    manifest = Manifest(_FORMAT, uuid.uuid4().hex, [_folder(number) for number in range(count)])
    for number, path in enumerate(manifest.shards):
        with atomic_file(folder / path / _SHARD) as file:
            file.write_bytes(msgspec.json.encode(_Shard(manifest.id, number, count)))
    with atomic_file(folder / MANIFEST) as file:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def _folder(number: int) -> str:
    return f"shard-{number:05d}"


def _read(file: Path, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as fault:
        raise FormatError(f"{file} cannot be read: {fault}", "restore it from a copy") from fault
