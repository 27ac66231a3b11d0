"""Many texts read at a GPU's speed: `Reader.read_many` with the work of Python in other processes.

Each process cuts texts into windows, and makes memories of what was found in them; none of them loads torch. Windows
of many texts are encoded together by this process, which does little else: the device waits for nobody. On a CPU the
encoder takes a hundred times as long as all the rest, and this gains nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Memory
from attar.progress import Progress, check_stopped
from attar.reader.encoding import EncodedBatch, TextEncoder, WindowBatch, inference
from attar.reader.windows import FoundPhrases, TextGroup, WindowedText, memories_of, text_groups
from attar.text.pieces import PieceTokenizer
from attar.workers import Worker, count_workers

# Characters of the texts that a process gets at a time: about a hundred paragraphs.
_CHARACTERS = 2**16
# Below this many characters in all, starting processes takes longer than what they save.
WORTH_IT = 2**20
# Called with what was encoded together, and the number of the text of each of its windows.
OnBatch = Callable[[EncodedBatch, NDArray[np.int64]], None]


class _Windows(NamedTuple):
    """The windows of some texts, and the number of each one's text; what is found in them is awaited."""

    windows: WindowBatch
    owners: NDArray[np.int64]
    found: "Future[list[_Found]]"


class _Found(NamedTuple):
    """What was found in some of the windows: their numbers, and their phrases as `EncodedBatch.blocks` gives them."""

    windows: NDArray[np.int64]
    blocks: NDArray[np.uint8]


class FastReading:
    """Processes that read for a reader with this encoder; they end with it."""

    def __init__(self, encoder: TextEncoder, tokenizer: PieceTokenizer, size: int, fingerprint: str) -> None:
        self._encoder = encoder
        settings = tokenizer.data, size, fingerprint
        self._workers = [Worker(work, settings) for _ in range(count_workers())]

    def read(self, texts: Sequence[str], progress: Progress, on_batch: OnBatch | None) -> list[Memory]:
        """The memories of phrases of texts, in order."""
        groups, lock = text_groups(texts, _CHARACTERS), Lock()
        memories: list[Memory | None] = [None] * len(texts)
        waiting: SimpleQueue[_Windows | None] = SimpleQueue()

        def take() -> TextGroup | None:
            with lock:
                return next(groups, None)

        def converse(worker: Worker) -> None:
            try:
                with worker.lock:
                    while (group := take()) is not None:
                        # What is read for a library is written next: its bytes are made by the processes, too.
                        windows, owners = worker.call((group.texts, on_batch is not None))
                        asked = _Windows(windows, owners + group.first, Future())
                        waiting.put(asked)
                        for at, memory in enumerate(worker.call(asked.found.result())):
                            memories[group.first + at] = memory
            finally:
                waiting.put(None)

        # Not `with`: after a failure nobody answers the others.
        pool = ThreadPoolExecutor(len(self._workers))
        talks = [pool.submit(converse, worker) for worker in self._workers]
        asked: list[_Windows] = []
        try:
            with inference():
                self._encode_waiting(waiting, len(talks), asked, progress, len(texts), on_batch)
        except BaseException:
            for windows in (*asked, *_drained(waiting)):
                windows.found.cancel()
            for worker in self._workers:
                worker.stop()
            raise
        finally:
            pool.shutdown(wait=False)
        for talk in talks:
            talk.result()
        return [memory for memory in memories if memory is not None]

    def _encode_waiting(
        self,
        waiting: "SimpleQueue[_Windows | None]",
        talking: int,
        asked: list[_Windows],
        progress: Progress,
        total: int,
        on_batch: OnBatch | None,
    ) -> None:
        """Encode what waits, all of it together, until all processes are done; the device works while we wait."""
        on_device: deque[tuple[list[_Windows], list[tuple[EncodedBatch, NDArray[np.int64]]]]] = deque()
        done = 0
        while talking or on_device:
            check_stopped()
            asked.clear()
            while talking and (not waiting.empty() or not (asked or on_device)):
                windows = waiting.get()
                if windows is None:
                    talking -= 1
                elif len(windows.windows.lengths):
                    asked.append(windows)
                else:
                    windows.found.set_result([])
            if asked:
                on_device.append((list(asked), self._encode(asked, on_batch)))
            if on_device and (len(on_device) > 1 or not asked):
                done += _deliver(*on_device.popleft())
                progress("reading", min(done, total), total)

    def _encode(
        self, asked: Sequence[_Windows], on_batch: OnBatch | None
    ) -> list[tuple[EncodedBatch, NDArray[np.int64]]]:
        joined = WindowBatch(
            *(np.concatenate(part) for part in zip(*(w.windows for w in asked), strict=True))
        )
        owners = np.concatenate([windows.owners for windows in asked])
        batches = []
        for order in self._encoder.batches(joined.lengths):
            encoded = self._encoder.encode(joined.at(order))
            if on_batch is not None:
                on_batch(encoded, owners[order])
            del encoded.states, encoded.windows  # of the device's memory
            batches.append((encoded, order))
        return batches


def _deliver(asked: Sequence[_Windows], batches: Sequence[tuple[EncodedBatch, NDArray[np.int64]]]) -> int:
    """Give every process what was found in its windows; returns of how many texts."""
    bounds = np.cumsum([0, *(len(windows.windows.lengths) for windows in asked)])
    parts: list[list[_Found]] = [[] for _ in asked]
    for encoded, order in batches:
        blocks, whose = encoded.blocks(), np.searchsorted(bounds, order, side="right") - 1
        for at in np.unique(whose).tolist():
            rows = np.flatnonzero(whose == at)
            parts[at].append(_Found(order[rows] - bounds[at], blocks[rows]))
    for windows, found in zip(asked, parts, strict=True):
        windows.found.set_result(found)
    return sum(len(np.unique(windows.owners)) for windows in asked)


def _drained(waiting: "SimpleQueue[_Windows | None]") -> Iterator[_Windows]:
    while True:
        try:
            windows = waiting.get_nowait()
        except Empty:
            return
        if windows is not None:
            yield windows


def work(connection: Connection, data: bytes, size: int, fingerprint: str) -> None:
    """Cut texts into windows, then make memories of what was found in them, again and again."""
    tokenizer = PieceTokenizer(data)
    while True:
        given, as_bytes = connection.recv()
        texts = [WindowedText.of(text, tokenizer) for text in given]
        windows = [window for text in texts for window in text.windows]
        owners = np.repeat(np.arange(len(texts)), [len(text.windows) for text in texts])
        connection.send((WindowBatch.of(windows), owners))
        found = [FoundPhrases.none(size)] * len(windows)
        for part in connection.recv():
            for at, phrases in zip(part.windows.tolist(), FoundPhrases.of(part.blocks), strict=True):
                found[at] = phrases
        memories = memories_of(texts, found, size, fingerprint)
        for memory in memories if as_bytes else ():
            memory.to_bytes()
        connection.send(memories)
