"""Reading a corpus with Ray: Ray Data streams documents to actors that hold the reader; this process writes.

A document has the same bytes as on one machine: reading a text does not depend on what else is read, and documents
are written in the order of the sources. After a crash the same call continues: what the store has is not read again.
"""

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attar.cluster.connection import connected, errors_in_one_line, is_gpu
from attar.cluster.shards import is_sharded, shard_of, shard_paths
from attar.cluster.sources import (
    CHARACTERS,
    CHARACTERS_ON_GPU,
    FoundSources,
    datasource,
    find_sources,
    from_table,
    to_table,
)
from attar.errors import AttarError, OptionError
from attar.library.adding import Adder
from attar.library.drafts import Draft, encode_texts
from attar.library.library import Library
from attar.options import FileLimits
from attar.progress import Progress, ignore_progress
from attar.reader.folders import ReaderFolder, find_reader
from attar.reader.parts import READER_FILES
from attar.results import Change
from attar.search.statistics import Projection
from attar.store.records import Fault
from attar.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    import ray

    from attar.reader.reader import Reader

# Hashes of names and texts, in order.
_Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Workers:
    """The actors that read: how many (None: as many as the cluster has room for), with a CPU or a GPU each."""

    actors: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.actors is not None and self.actors < 1:
            raise OptionError.expected("actors", "a whole number from 1 up", str(self.actors))

    @property
    def on_gpu(self) -> bool:
        return is_gpu(self.device)

    def count(self) -> int:
        """How many actors the connected cluster has room for, of those that are wanted; none is refused."""
        import ray

        room, needed = ray.cluster_resources(), "GPU" if self.on_gpu else "CPU"
        most = int(room.get(needed, 0))
        if most < 1:
            has = f"{room.get('GPU', 0):g} GPUs and {room.get('CPU', 0):g} CPUs"
            message = f"no actor with a {needed} fits into a cluster with {has}"
            raise OptionError(message, "leave --device out, or start more nodes")
        return min(self.actors or most, most)

    def resources(self) -> dict[str, Any]:
        return {"num_cpus": int(not self.on_gpu), "num_gpus": 1 if self.on_gpu else None}


def read_with_ray(
    out: str | os.PathLike[str],
    sources: Iterable[str | os.PathLike[str]] | FoundSources,
    *,
    address: str | None = None,
    workers: Workers | None = None,
    reader: str | os.PathLike[str] | None = None,
    replace: bool = False,
    keep_text: bool = True,
    budget: int | None = None,
    limits: FileLimits | None = None,
    on_change: Callable[[Change], None] | None = None,
    on_bad: Callable[[AttarError], None] | None = None,
    progress: Progress = ignore_progress,
) -> Counter[str]:
    """Read files, folders and URLs with Ray into a library, or one in shards; counts the changes.

    `address` is that of a cluster; None starts Ray on this machine. A file that cannot be read, or a name that is
    taken, ends it, or `on_bad` is called with the error and the others are added.
    """
    out, workers = Path(out), workers or Workers()
    path = None if reader is None else Path(reader)
    found = sources if isinstance(sources, FoundSources) else find_sources(str(source) for source in sources)
    changes: Counter[str] = Counter()

    def changed(change: Change) -> None:
        changes[change.change] += 1
        if on_change is not None:
            on_change(change)

    with contextlib.ExitStack() as stack:
        stack.enter_context(connected(address, workers.actors))
        stack.enter_context(errors_in_one_line())
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "The minimum number of concurrent actors")  # of few documents

        def opened(folder: Path) -> Library:
            library = Library(folder, path, keep_text=keep_text, budget=budget)
            return stack.enter_context(library)

        new = not is_sharded(out) and not Store.exists(out)
        # A new library is created when there is a document to add; until then an empty one takes its place.
        empty = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attar-empty-")))
        folders = [empty] if new else shard_paths(out) if is_sharded(out) else [out]
        libraries = [opened(folder) for folder in folders]
        seen: dict[str, bytes] = {}
        characters = 0
        for block in _read(found, libraries, path, workers, limits):
            by_shard: dict[int, list[Draft]] = {}
            for document in block:
                if isinstance(document, Draft):
                    characters += len(document.text)
                    by_shard.setdefault(shard_of(document.name, len(libraries)), []).append(document)
                elif on_bad is None:
                    raise document
                else:
                    on_bad(document)
            if by_shard and new:
                libraries, new = [opened(out)], False
            for shard, drafts in by_shard.items():
                adder = Adder(libraries[shard], replace, ignore_progress, on_bad, seen)
                for change in adder.add(drafts, len(drafts)):
                    changed(change)
            progress("characters", characters, found.size)
    return changes


def _read(
    found: FoundSources,
    libraries: list[Library],
    reader: Path | None,
    workers: Workers,
    limits: FileLimits | None,
) -> Iterator[list[Draft | AttarError]]:
    """Yield the documents of sources in order, some at a time, read by actors."""
    import ray

    if not found.files:
        return
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.target_max_block_size = 1  # blocks stay as they are: one row each
    actors = workers.count()
    files = ray.put(_ReaderFiles.of(libraries[0], reader))
    known = ray.put(_known(libraries))
    # Reading files reserves no CPU: the actors have all. One task reads what two GPUs do, or many cores.
    documents = ray.data.read_datasource(
        datasource(found.files, limits, CHARACTERS_ON_GPU if workers.on_gpu else CHARACTERS),
        num_cpus=0,
        concurrency=actors if workers.on_gpu else max(1, actors // 2),
    )
    read = documents.map_batches(
        _ReaderActor,
        fn_constructor_args=(files, known, workers),
        compute=ray.data.ActorPoolStrategy(size=actors),
        batch_size=1,
        batch_format="pyarrow",
        **workers.resources(),
    )
    for table in read.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
        yield from_table(table)


@dataclass(frozen=True)
class _ReaderFiles:
    """A reader's files, sent to the actors so that no node needs a copy, and what signatures are made with."""

    files: dict[str, bytes]
    projection: Projection | None

    @classmethod
    def of(cls, library: Library, path: Path | None) -> "_ReaderFiles":
        given = None if path is None else ReaderFolder.open(path)
        folder = find_reader(f"library {library.store.path}", given, library.store.reader).path
        files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name in READER_FILES}
        return cls(files, library.searching.projection(library.reader))

    def load(self, workers: Workers) -> "Reader":
        import torch

        from attar.reader.reader import Reader

        torch.set_num_threads(1)
        if workers.on_gpu:
            keep_to_own_cores()
        with tempfile.TemporaryDirectory(prefix="attar-reader-") as folder:
            for name, data in self.files.items():
                Path(folder, name).write_bytes(data)
            reader = Reader.load(folder)
            reader.prepare()
        return reader if workers.device is None else reader.to(workers.device)


def keep_to_own_cores() -> None:
    """Use this GPU's share of the machine's cores: a process per core works for a device, and there may be eight."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    gpus = next(int(node["Resources"].get("GPU", 1)) for node in ray.nodes() if node["NodeID"] == here)
    own = int(ray.get_gpu_ids()[0])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[own % gpus :: gpus] or cores)


class _ReaderActor:
    """An actor: holds the reader, and reads the documents of a block that the store does not have."""

    def __init__(
        self, files: "ray.ObjectRef[_ReaderFiles]", known: "ray.ObjectRef[_Keys]", workers: Workers
    ) -> None:
        import ray

        loaded: _ReaderFiles = ray.get(files)
        self._reader = loaded.load(workers)
        self._projection = loaded.projection
        self._known: _Keys = ray.get(known)

    def __call__(self, table: "pa.Table") -> "pa.Table":
        documents = from_table(table)
        new = {
            place: document
            for place, document in enumerate(documents)
            if isinstance(document, Draft) and not self._is_known(document)
        }
        texts = [draft.text for draft in new.values()]
        encoded = encode_texts(self._reader, self._projection, texts)
        for (place, draft), read in zip(new.items(), encoded, strict=True):
            documents[place] = draft._replace(encoded=read)
        return to_table(documents)

    def _is_known(self, draft: Draft) -> bool:
        key = _key(draft.name, draft.digest)
        at = self._known.searchsorted(key)
        return bool(at < len(self._known) and self._known[at] == key)


def _known(libraries: list[Library]) -> _Keys:
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
