"""Many texts read at a GPU's speed: `Reader.read_many` with the work of Python in other processes.

Each process cuts texts into windows, and makes memories of what was found in them; none of them loads torch. Windows
of many texts are encoded together by this process, which does little else: the device waits for nobody. On a CPU the
encoder takes a hundred times as long as all the rest, and this gains nothing.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Memory
from attar.progress import Progress, check_stopped
from attar.reader.encoding import EncodedBatch, TextEncoder, WindowBatch, inference
from attar.reader.windows import FoundPhrases, PieceTokenizer, WindowedText, memories_of, text_groups
from attar.workers import Worker, count_workers, receive

# Characters of the texts that a process gets at a time: about a hundred paragraphs.
_CHARACTERS = 2**16
# Below this many characters in all, starting processes takes longer than what they save.
WORTH_IT = 2**20
# Chunks of texts that a process has at a time: it cuts the next ones while the device encodes the first.
_IN_FLIGHT = 3
# Called with what was encoded together, and the number of the text of each of its windows.
OnBatch = Callable[[EncodedBatch, NDArray[np.int64]], None]


class _Cut(NamedTuple):
    """The windows of some texts, and the number of each one's text."""

    windows: WindowBatch
    owners: NDArray[np.int64]


class _Found(NamedTuple):
    """What was found in some of the windows: their numbers, and their phrases as `EncodedBatch.blocks` gives them."""

    windows: NDArray[np.int64]
    blocks: NDArray[np.uint8]


@dataclass(eq=False)
class _Chunk:
    """Texts that one process cuts and makes memories of; `first` is the number of the first."""

    process: "_Process"
    first: int
    texts: list[str]
    cut: _Cut | None = None
    found: list[_Found] | None = None


@dataclass(eq=False)
class _Process:
    """A worker, the chunks that it has, in order, and the one whose reply is awaited."""

    worker: Worker
    chunks: deque[_Chunk] = field(default_factory=deque)
    awaited: _Chunk | None = None


class FastReading:
    """Processes that read for a reader with this encoder; they end with it."""

    def __init__(self, encoder: TextEncoder, tokenizer: PieceTokenizer, size: int, fingerprint: str) -> None:
        self._encoder, self._lock = encoder, Lock()
        settings = tokenizer.data, size, fingerprint
        self._workers = [Worker(work, settings) for _ in range(count_workers())]

    def read(self, texts: Sequence[str], progress: Progress, on_batch: OnBatch | None) -> list[Memory]:
        """The memories of phrases of texts, in order.

        One thread does all that this process does: threads that launch kernels while others unpickle wait for the
        interpreter at each launch.
        """
        with self._lock, inference():
            try:
                return _Reading(self._encoder, texts, progress, on_batch).read(self._workers)
            except BaseException:
                for worker in self._workers:  # what they have in hand nobody waits for
                    worker.stop()
                raise


class _Reading:
    """One call of `FastReading.read`."""

    def __init__(
        self, encoder: TextEncoder, texts: Sequence[str], progress: Progress, on_batch: OnBatch | None
    ) -> None:
        self._encoder, self._progress, self._on_batch = encoder, progress, on_batch
        self._groups = text_groups(texts, _CHARACTERS)
        self._memories: list[Memory | None] = [None] * len(texts)
        self._done = 0

    def read(self, workers: Sequence[Worker]) -> list[Memory]:
        processes = {worker: _Process(worker) for worker in workers}
        waiting: list[_Chunk] = []  # for the device
        on_device: deque[tuple[list[_Chunk], list[tuple[EncodedBatch, NDArray[np.int64]]]]] = deque()
        while True:
            check_stopped()
            for process in processes.values():
                self._give_work(process)
            busy = [worker for worker, process in processes.items() if process.awaited is not None]
            if not (busy or waiting or on_device):
                return [memory for memory in self._memories if memory is not None]
            for worker, reply in receive(busy, 0.0 if waiting or on_device else None) if busy else ():
                chunk = self._take(processes[worker], reply)
                if chunk is not None:
                    waiting.append(chunk)
            if waiting and len(on_device) < 2:
                on_device.append((waiting, self._encode(waiting)))
                waiting = []
            elif on_device:
                _deliver(*on_device.popleft())

    def _give_work(self, process: _Process) -> None:
        """Send a process that waits what it can do next: memories of what was found, or else other texts to cut.

        A process has one request at a time, so that it never writes while this one does.
        """
        if process.awaited is not None:
            return
        if process.chunks and process.chunks[0].found is not None:
            process.awaited = process.chunks.popleft()
            process.worker.send(process.awaited.found)
        elif len(process.chunks) < _IN_FLIGHT and (group := next(self._groups, None)) is not None:
            process.awaited = _Chunk(process, *group)
            process.chunks.append(process.awaited)
            # What is read for a library is written next: its bytes are made by the processes, too.
            process.worker.send((process.awaited.texts, self._on_batch is not None))

    def _take(self, process: _Process, reply: _Cut | list[Memory]) -> _Chunk | None:
        """Take a reply; returns the chunk if the device is to encode its windows."""
        chunk, process.awaited = process.awaited, None
        assert chunk is not None  # else nothing was awaited
        if isinstance(reply, _Cut):
            chunk.cut = reply
            if len(reply.windows.lengths):
                return chunk
            chunk.found = []
            return None
        self._memories[chunk.first : chunk.first + len(chunk.texts)] = reply
        self._done += len(chunk.texts)
        self._progress("reading", self._done, len(self._memories))
        return None

    def _encode(self, chunks: Sequence[_Chunk]) -> list[tuple[EncodedBatch, NDArray[np.int64]]]:
        cuts = [chunk.cut for chunk in chunks if chunk.cut is not None]
        parts = zip(*(cut.windows for cut in cuts), strict=True)
        joined = WindowBatch(*(np.concatenate(part) for part in parts))
        batches = []
        for order in self._encoder.batches(joined.lengths):
            encoded = self._encoder.encode(joined.at(order))
            if self._on_batch is not None:
                owners = [cut.owners + chunk.first for chunk, cut in zip(chunks, cuts, strict=True)]
                self._on_batch(encoded, np.concatenate(owners)[order])
            del encoded.states, encoded.windows  # of the device's memory
            batches.append((encoded, order))
        return batches


def _deliver(chunks: Sequence[_Chunk], batches: Sequence[tuple[EncodedBatch, NDArray[np.int64]]]) -> None:
    """Give every chunk what was found in its windows, once it has arrived."""
    counts = [len(chunk.cut.windows.lengths) for chunk in chunks if chunk.cut is not None]
    bounds = np.cumsum([0, *counts])
    parts: list[list[_Found]] = [[] for _ in chunks]
    for encoded, order in batches:
        blocks, whose = encoded.blocks(), np.searchsorted(bounds, order, side="right") - 1
        for at in np.unique(whose).tolist():
            rows = np.flatnonzero(whose == at)
            parts[at].append(_Found(order[rows] - bounds[at], blocks[rows]))
    for chunk, found in zip(chunks, parts, strict=True):
        chunk.found = found


def work(connection: Connection, data: bytes, size: int, fingerprint: str) -> None:
    """Cut texts into windows, and make memories of what was found in the first that were cut, as it is asked for."""
    tokenizer = PieceTokenizer(data)
    cut: deque[tuple[list[WindowedText], bool]] = deque()
    while True:
        request = connection.recv()
        if isinstance(request, tuple):
            given, as_bytes = request
            texts = [WindowedText.of(text, tokenizer) for text in given]
            cut.append((texts, as_bytes))
            owners = np.repeat(np.arange(len(texts)), [len(text.windows) for text in texts])
            windows = [window for text in texts for window in text.windows]
            connection.send(_Cut(WindowBatch.of(windows), owners))
            continue
        texts, as_bytes = cut.popleft()
        found = [FoundPhrases.none(size)] * sum(len(text.windows) for text in texts)
        for part in request:
            for at, phrases in zip(part.windows.tolist(), FoundPhrases.of(part.blocks), strict=True):
                found[at] = phrases
        memories = memories_of(texts, found, size, fingerprint)
        if as_bytes:
            for memory in memories:
                memory.to_bytes()  # made once, and sent with it
        connection.send(memories)
