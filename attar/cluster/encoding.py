"""Reading with Ray: Ray Data streams documents to actors that hold the reader; this process is the one writer.

A document has the same bytes as on one machine: reading a text does not depend on what else is read, and documents
are written in the order of the sources. After a crash the same call continues: what the store has is not read again.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.cluster.connection import connected
from attar.cluster.shards import is_sharded, shard_of, shard_paths
from attar.cluster.sources import FoundSources, datasource, find_sources, from_table, to_table
from attar.errors import AttarError, OptionError, UnavailableError
from attar.files import MAX_DECOMPRESSED
from attar.library.drafts import Draft, encode_texts
from attar.library.library import Library
from attar.progress import Progress, ignore_progress
from attar.reader.folders import find_reader
from attar.reader.parts import READER_FILES
from attar.results import Change
from attar.search.statistics import Projection
from attar.store.lmdb_env import Durability
from attar.store.parquet import export_store
from attar.store.records import Fault
from attar.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from attar.reader.reader import Reader

_PARQUET = ".parquet"


@dataclass(frozen=True)
class Workers:
    """The actors that read: how many (None: as many as the cluster has room for), and what each of them gets."""

    actors: int | None = None
    threads: int = 1
    gpus: float = 0.0

    def __post_init__(self) -> None:
        for name in ("actors", "threads"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise OptionError.expected(name, "a whole number from 1 up", str(value))
        if not 0 <= self.gpus < 1_000:
            raise OptionError.expected("gpus", "a number from 0 up", str(self.gpus))

    def count(self) -> int:
        """How many actors the connected cluster has room for, of those that are wanted; none is refused."""
        import ray

        room = ray.cluster_resources()
        most = room.get("GPU", 0.0) / self.gpus if self.gpus else room.get("CPU", 0.0) / self.threads
        if most < 1:
            needed = f"{self.gpus:g} GPUs" if self.gpus else f"{self.threads} CPUs"
            has = f"{room.get('GPU', 0):g} GPUs and {room.get('CPU', 0):g} CPUs"
            raise OptionError.expected(
                "cluster", f"room for an actor with {needed}", has, "ask for less per actor"
            )
        return min(self.actors or int(most), int(most))

    def resources(self) -> dict[str, Any]:
        """What Ray gives each actor."""
        return {"num_cpus": 0 if self.gpus else self.threads, "num_gpus": self.gpus or None}


def encode(
    out: str | os.PathLike[str],
    sources: Iterable[str | os.PathLike[str]] | FoundSources,
    *,
    address: str | None = None,
    workers: Workers | None = None,
    reader: str | os.PathLike[str] | None = None,
    replace: bool = False,
    keep_text: bool = True,
    budget: int | None = None,
    durability: Durability = "sync",
    max_bytes: int = MAX_DECOMPRESSED,
    on_change: Callable[[Change], None] | None = None,
    on_bad: Callable[[AttarError], None] | None = None,
    progress: Progress = ignore_progress,
) -> Counter[str]:
    """Read files, folders and URLs with Ray into a library, one in shards, or a Parquet file; counts the changes.

    `address` is that of a cluster; None starts Ray on this machine. A file that cannot be read, or a name that is
    taken, ends it, or `on_bad` is called with the error and the others are added.
    """
    out, path = Path(out), None if reader is None else Path(reader)
    found = (
        sources if isinstance(sources, FoundSources) else find_sources([os.fspath(each) for each in sources])
    )
    options: dict[str, Any] = {"durability": durability, "keep_text": keep_text, "budget": budget}
    changes: Counter[str] = Counter()

    def changed(change: Change) -> None:
        changes[change.change] += 1
        if on_change is not None:
            on_change(change)

    with contextlib.ExitStack() as stack:
        workers = workers or Workers()
        stack.enter_context(connected(address, (workers.actors or 1) * workers.threads))
        stack.enter_context(in_one_line())
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "The minimum number of concurrent actors")  # of few documents
        store = out.with_name(f"{out.name}.partial") if out.suffix == _PARQUET else out
        new = not is_sharded(store) and not Store.exists(store)
        # A new library is created when there is a document to add; until then an empty one takes its place.
        empty = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attar-empty-")))
        folders = [empty] if new else shard_paths(store) if is_sharded(store) else [store]
        libraries = [stack.enter_context(Library(folder, path, **options)) for folder in folders]
        seen: dict[str, bytes] = {}
        done = 0
        for documents in _encoded(found, libraries, path, workers, max_bytes):
            own: dict[int, list[Draft]] = {}
            for each in documents:
                if isinstance(each, Draft):
                    done += len(each.text)
                    own.setdefault(shard_of(each.name, len(libraries)), []).append(each)
                elif on_bad is None:
                    raise each
                else:
                    on_bad(each)
            if own and new:
                libraries, new = [stack.enter_context(Library(store, path, **options))], False
            for shard, drafts in own.items():
                given: dict[str, Any] = {"replace": replace, "on_change": changed, "on_refused": on_bad}
                libraries[shard].add_many(drafts, batch_size=len(drafts), seen=seen, **given)
            progress("characters", done, found.size)
        if out.suffix == _PARQUET and not new:
            export_store(libraries[0].store, out)
    if out.suffix == _PARQUET and not new:
        shutil.rmtree(store)
    return changes


def _encoded(
    found: FoundSources, libraries: list[Library], reader: Path | None, workers: Workers, max_bytes: int
) -> "Iterator[list[Draft | AttarError]]":
    """Yield the documents of sources in order, some at a time, read by actors."""
    import ray

    if not found.files:
        return
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.target_max_block_size = 1  # blocks stay as they are: one row each
    actors = workers.count()
    files = ray.put(ReaderFiles.of(libraries[0], reader, libraries[0].projection))
    known = ray.put(_known(libraries))
    # Reading files reserves no CPU: the actors have all.
    documents = ray.data.read_datasource(
        datasource(found.files, max_bytes), num_cpus=0, concurrency=max(1, actors // 2)
    )
    encoded = documents.map_batches(
        _Encoder,
        fn_constructor_args=(files, known, workers),
        compute=ray.data.ActorPoolStrategy(size=actors),
        batch_size=None,
        batch_format="pyarrow",
        **workers.resources(),
    )
    for table in encoded.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
        yield from_table(table)


class ReaderFiles(NamedTuple):
    """A reader's files, sent to the actors so that no node needs a copy, and what signatures are made with."""

    files: dict[str, bytes]
    projection: Projection | None

    @classmethod
    def of(cls, library: Library, path: Path | None, projection: Projection | None = None) -> "ReaderFiles":
        """The files of a library's reader, or of the given one."""
        folder = find_reader(f"library {library.store.path}", path, library.store.reader).path
        files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name in READER_FILES}
        return cls(files, projection)

    def load(self, workers: Workers) -> "Reader":
        """The reader, in an actor."""
        import torch

        from attar.reader.reader import Reader

        torch.set_num_threads(workers.threads)
        with tempfile.TemporaryDirectory(prefix="attar-reader-") as folder:
            for name, data in self.files.items():
                Path(folder, name).write_bytes(data)
            reader = Reader.load(folder)
            reader.prepare()
        return reader.to("cuda") if workers.gpus else reader


class _Encoder:
    """An actor: holds the reader, and reads the documents of a block that the store does not have."""

    def __init__(self, reader: Any, known: Any, workers: Workers) -> None:
        import ray

        given: ReaderFiles = ray.get(reader)
        self._reader = given.load(workers)
        self._projection, self._known = given.projection, ray.get(known)

    def __call__(self, table: "pa.Table") -> "pa.Table":
        documents = from_table(table)
        new = {
            at: each
            for at, each in enumerate(documents)
            if isinstance(each, Draft) and not self._is_known(each)
        }
        encoded = encode_texts(self._reader, self._projection, [each.text for each in new.values()])
        for (at, draft), own in zip(new.items(), encoded, strict=True):
            documents[at] = draft._replace(encoded=own)
        return to_table(documents)

    def _is_known(self, draft: Draft) -> bool:
        key = _key(draft.name, draft.digest)
        at = self._known.searchsorted(key)
        return bool(at < len(self._known) and self._known[at] == key)


def _known(libraries: list[Library]) -> NDArray[np.uint64]:
    """Keys of the documents that need not be read, in order; for a wrong one, the writer reads the text itself."""
    entries = (
        entry
        for library in libraries
        for entry in library.store.documents()
        if not isinstance(entry, Fault)
        and (entry.text_bytes is not None or not library.keep_text)
        and library.budget in (None, entry.budget)
    )
    return np.sort(np.array([_key(entry.name, entry.digest) for entry in entries], np.uint64))


def _key(name: str, digest: bytes) -> np.uint64:
    """Eight bytes of a hash of a name and its text's digest."""
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode() + digest, digest_size=8).digest()))


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Report what fails in an actor as the error that it is, or in one line."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as fault:
        cause: BaseException | None = fault
        while cause is not None and not isinstance(cause, AttarError):
            cause = getattr(cause, "cause", None) or cause.__cause__
        if isinstance(cause, AttarError):
            raise cause from fault
        *_, line = [each for each in str(fault).splitlines() if each.strip()] or [type(fault).__name__]
        remedy = "install this version of attar on every node, and run the command again: it continues"
        raise UnavailableError.expected("ray", "actors that read", line.strip()[:160], remedy) from fault
