"""Many texts read at a GPU's speed: `Reader.read_many` with the work of Python in other processes.

Each process cuts texts into windows, and makes memories of what was found in them; none of them loads torch. Windows
of many texts are encoded together by this process, which does little else: the device waits for nobody. On a CPU the
encoder takes a hundred times as long as all the rest, and this gains nothing.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Memory
from attar.progress import Progress, check_stopped
from attar.reader.encoding import EncodedBatch, TextEncoder, inference
from attar.reader.windows import FoundPhrases, PieceTokenizer, Window, WindowedText, memories_of, text_groups
from attar.workers import Worker, count_workers, receive

# Characters of the texts that a process gets at a time: about a hundred paragraphs.
_CHARACTERS = 2**16
# Chunks of texts that a process has at a time: it cuts the next ones while the device encodes the first.
_IN_FLIGHT = 3
# Called with what was encoded together, and the number of the text of each of its windows.
OnBatch = Callable[[EncodedBatch, Sequence[int]], None]


class _Found(NamedTuple):
    """What was found in some of the windows: their numbers, and their phrases as `EncodedBatch.blocks` gives them."""

    windows: list[int]
    blocks: NDArray[np.uint8]


@dataclass(eq=False)
class _Chunk:
    """Texts that one process cuts and makes memories of; `first` is the number of the first."""

    process: "_Process"
    first: int
    texts: list[str]
    windows: Sequence[list[Window]] = ()  # of each text
    found: list[_Found] | None = None


class _Place(NamedTuple):
    """A window for the device: its number in its chunk, and the number of its text."""

    chunk: _Chunk
    number: int
    text: int
    window: Window


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
        on_device: deque[tuple[list[_Chunk], list[tuple[EncodedBatch, list[_Place]]]]] = deque()
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

    def _take(self, process: _Process, reply: Any) -> _Chunk | None:
        """Take a reply, windows of each text or memories; returns the chunk if the device is to encode its windows."""
        chunk, process.awaited = process.awaited, None
        assert chunk is not None  # else nothing was awaited
        if chunk.found is None:
            chunk.windows = reply
            if any(reply):
                return chunk
            chunk.found = []
            return None
        self._memories[chunk.first : chunk.first + len(chunk.texts)] = reply
        self._done += len(chunk.texts)
        self._progress("reading", self._done, len(self._memories))
        return None

    def _encode(self, chunks: Sequence[_Chunk]) -> list[tuple[EncodedBatch, list[_Place]]]:
        places: list[_Place] = []
        for chunk in chunks:
            owned = [(text, window) for text, of in enumerate(chunk.windows, chunk.first) for window in of]
            places += [_Place(chunk, number, *each) for number, each in enumerate(owned)]
        batches = []
        for order in self._encoder.batches([place.window for place in places]):
            chosen = [places[at] for at in order.tolist()]
            encoded = self._encoder.encode([place.window for place in chosen])
            if self._on_batch is not None:
                self._on_batch(encoded, [place.text for place in chosen])
            del encoded.states, encoded.windows  # of the device's memory
            batches.append((encoded, chosen))
        return batches


def _deliver(chunks: Sequence[_Chunk], batches: Sequence[tuple[EncodedBatch, list[_Place]]]) -> None:
    """Give every chunk what was found in its windows, once it has arrived."""
    found: dict[_Chunk, list[_Found]] = {chunk: [] for chunk in chunks}
    for encoded, places in batches:
        blocks, rows = encoded.blocks(), defaultdict[_Chunk, list[int]](list)
        for row, place in enumerate(places):
            rows[place.chunk].append(row)
        for chunk, of_chunk in rows.items():
            found[chunk].append(_Found([places[row].number for row in of_chunk], blocks[of_chunk]))
    for chunk, parts in found.items():
        chunk.found = parts


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
            connection.send([text.windows for text in texts])
            continue
        texts, as_bytes = cut.popleft()
        found = [FoundPhrases.none(size)] * sum(len(text.windows) for text in texts)
        for part in request:
            for at, phrases in zip(part.windows, FoundPhrases.of(part.blocks), strict=True):
                found[at] = phrases
        memories = memories_of(texts, found, size, fingerprint)
        if as_bytes:
            for memory in memories:
                memory.to_bytes()  # made once, and sent with it
        connection.send(memories)
