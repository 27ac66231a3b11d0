"""Reading a corpus with Ray: this process reads files and writes memories, actors that hold the reader make them.

A document has the same bytes as on one machine: reading a text does not depend on what else is read, and documents
are written in the order of the sources. After a crash the same call continues: what the store has is not read again.
"""

import contextlib
import os
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attar.cluster.connection import connected, errors_in_one_line, is_gpu
from attar.cluster.shards import is_sharded, shard_of, shard_paths
from attar.documents.sources import FoundFiles, find_files
from attar.documents.workers import FileReader
from attar.errors import AttarError, OptionError
from attar.library.adding import Adder
from attar.library.drafts import Draft, Encoded, batches, encode_texts, read_files
from attar.library.library import Library
from attar.options import FileLimits
from attar.progress import Progress, ignore_progress
from attar.reader.folders import ReaderFolder, find_reader
from attar.reader.parts import READER_FILES
from attar.results import Change
from attar.search.statistics import Projection
from attar.store.store import Store

if TYPE_CHECKING:
    import ray

    from attar.reader.reader import Reader

# Characters of documents that an actor reads at a time: some seconds, so that all of them have something to do, and a
# kill loses little. On a GPU that takes one second. And as many documents, at most.
_CHARACTERS = 2**15
_CHARACTERS_ON_GPU = 2**22
_DOCUMENTS = 2**13
# Blocks that an actor has at a time, so that it does not wait for this process.
_BLOCKS = 2
# How many times a block is read again whose actor died: a text may be what kills it.
_RETRIES = 3


def read_with_ray(
    out: str | os.PathLike[str],
    sources: Iterable[str | Path] | FoundFiles,
    *,
    address: str | None = None,
    actors: int | None = None,
    device: str | None = None,
    reader: str | os.PathLike[str] | None = None,
    replace: bool = False,
    keep_text: bool = True,
    budget: int | None = None,
    limits: FileLimits | None = None,
    on_change: Callable[[Change], None] | None = None,
    on_bad: Callable[[AttarError], None] | None = None,
    progress: Progress = ignore_progress,
) -> Counter[str]:
    """Read files and folders with Ray into a library, or one in shards; counts the changes.

    `address` is that of a cluster; None starts Ray on this machine. `actors` read, each with a CPU, or with a GPU where
    a `device` says so: as many as there is room for, by default. A file that cannot be read, or a name that is taken,
    ends it, or `on_bad` is called with the error and the others are added.
    """
    out = Path(out)
    path = None if reader is None else Path(reader)
    found = sources if isinstance(sources, FoundFiles) else find_files(sources)
    size = sum(file.bytes for file in found.files)
    changes: Counter[str] = Counter()

    def changed(change: Change) -> None:
        changes[change.change] += 1
        if on_change is not None:
            on_change(change)

    with contextlib.ExitStack() as stack:
        stack.enter_context(connected(address, actors))
        stack.enter_context(errors_in_one_line())

        def opened(folder: Path) -> Library:
            library = Library(folder, path, keep_text=keep_text, budget=budget)
            return stack.enter_context(library)

        new = not is_sharded(out) and not Store.exists(out)
        # A new library is created when there is a document to add; until then an empty one takes its place.
        empty = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attar-empty-")))
        folders = [empty] if new else shard_paths(out) if is_sharded(out) else [out]
        libraries = [opened(folder) for folder in folders]

        def is_known(draft: Draft) -> bool:
            return _is_known(libraries[shard_of(draft.name, len(libraries))], draft)

        files = stack.enter_context(FileReader(limits))
        drafts = read_files(found.files, on_bad, reader=files)
        blocks = batches(drafts, _DOCUMENTS, _CHARACTERS_ON_GPU if is_gpu(device) else _CHARACTERS)
        seen: dict[str, bytes] = {}
        characters = 0
        started = _start(actors, device, libraries[0], path) if found.files else _Started([], [])
        for block in _encoded(blocks, is_known, started):
            if new:
                libraries, new = [opened(out)], False
            by_shard: dict[int, list[Draft]] = {}
            for draft in block:
                characters += len(draft.text)
                by_shard.setdefault(shard_of(draft.name, len(libraries)), []).append(draft)
            for shard, own in by_shard.items():
                adder = Adder(libraries[shard], replace, ignore_progress, on_bad, seen)
                for change in adder.add(own, len(own)):
                    changed(change)
            progress("characters", characters, size)
    return changes


def _is_known(library: Library, draft: Draft) -> bool:
    """Whether a document need not be read; where that is wrong, it is read here, when it is added."""
    with library.store.snapshot() as now:
        entry = now.find(draft.name)
    if entry is None or entry.digest != draft.digest or library.budget not in (None, entry.budget):
        return False
    return entry.text_bytes is not None or not library.keep_text


def _encoded(
    blocks: Iterable[list[Draft]], is_known: Callable[[Draft], bool], started: "_Started"
) -> Iterator[list[Draft]]:
    """Yield blocks of documents in their order, with what actors have read of those that are not known."""
    import ray

    waiting: deque[tuple[list[Draft], ray.ObjectRef[dict[str, Encoded]]]] = deque()

    def first() -> list[Draft]:
        block, reading = waiting.popleft()
        read = ray.get(reading)
        return [draft._replace(encoded=read.get(draft.name)) for draft in block]

    for block, actor in zip(blocks, cycle(started.actors), strict=False):
        texts = {draft.name: draft.text for draft in block if not is_known(draft)}
        waiting.append((block, actor.read.remote(texts, started.sent)))
        if len(waiting) >= _BLOCKS * len(started.actors):
            yield first()
    while waiting:
        yield first()


def keep_to_own_cores() -> None:
    """Use this GPU's share of the machine's cores: a process per core works for a device, and there may be eight."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    gpus = next(int(node["Resources"].get("GPU", 1)) for node in ray.nodes() if node["NodeID"] == here)
    own = int(ray.get_gpu_ids()[0])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[own % gpus :: gpus] or cores)


class ReadingActor:
    """An actor that reads texts; it loads the reader with the first, so that a fault of it is that call's error."""

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._reader: Reader | None = None
        self._projection: Projection | None = None

    def _load(self, files: dict[str, bytes]) -> "Reader":
        import torch

        from attar.reader.reader import Reader

        torch.set_num_threads(1)
        if is_gpu(self._device):
            keep_to_own_cores()
        with tempfile.TemporaryDirectory(prefix="attar-reader-") as folder:
            for name, data in files.items():
                Path(folder, name).write_bytes(data)
            reader = Reader.load(folder)
            reader.prepare()
        return reader if self._device is None else reader.to(self._device)

    def read(self, texts: dict[str, str], sent: "list[ray.ObjectRef[SentReader]]") -> dict[str, Encoded]:
        """What texts become, by the names of their documents; a list keeps Ray from sending the reader with each."""
        import ray

        if not texts:
            return {}
        if self._reader is None:
            reader = ray.get(sent[0])
            self._reader, self._projection = self._load(reader.files), reader.projection
        encoded = encode_texts(self._reader, self._projection, list(texts.values()))
        return dict(zip(texts, encoded, strict=True))


def room_for(actors: int | None, device: str | None) -> int:
    """How many actors the connected cluster has room for, of those that are wanted; none is refused."""
    import ray

    room, needed = ray.cluster_resources(), "GPU" if is_gpu(device) else "CPU"
    most = int(room.get(needed, 0))
    if most < 1:
        has = f"{room.get('GPU', 0):g} GPUs and {room.get('CPU', 0):g} CPUs"
        message = f"no actor with a {needed} fits into a cluster with {has}"
        raise OptionError(message, "leave --device out, or start more nodes")
    return min(actors or most, most)


def resources(device: str | None) -> dict[str, int]:
    """What an actor takes of the cluster."""
    return {"num_gpus": 1, "num_cpus": 0} if is_gpu(device) else {"num_cpus": 1}


class SentReader(NamedTuple):
    """A reader's files, sent so that no node needs a copy, and what signatures are made with."""

    files: dict[str, bytes]
    projection: Projection | None


class _Started(NamedTuple):
    """Actors, and where Ray has their reader, which an actor that is started again loads, too."""

    actors: list[Any]
    sent: "list[ray.ObjectRef[SentReader]]"


def _start(actors: int | None, device: str | None, library: Library, path: Path | None) -> _Started:
    """Start the actors; one that dies is started again, and reads again what it had."""
    import ray

    given = None if path is None else ReaderFolder.open(path)
    folder = find_reader(f"library {library.store.path}", given, library.store.reader).path
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name in READER_FILES}
    sent = ray.put(SentReader(files, library.searching.projection(library.reader)))
    actor = ray.remote(max_restarts=-1, max_task_retries=_RETRIES, **resources(device))(ReadingActor)
    return _Started([actor.remote(device) for _ in range(room_for(actors, device))], [sent])
