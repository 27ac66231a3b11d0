"""Stores of random memories to measure: filled when first needed, deleted at the end."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import msgspec
import numpy as np
import torch
from torch import Tensor

from attar.bench.baselines import Floats, softmax_torch
from attar.bench.report import quantity
from attar.errors import OptionError
from attar.memory.memory import Memory
from attar.progress import Progress
from attar.store.format import Record
from attar.store.store import Store

READER = "made up"
# Different memories; the documents repeat them, each copy in its own pages.
DIFFERENT = 64
# At most this many documents are stored with all their states: 3 GB.
MOST_HIDDEN = 10_000
# Documents per transaction.
BATCH = 1_000
# LMDB stores a large value in its own pages.
PAGE = 4096
# Bytes per document besides its memory: facts, keys, and the inner pages of the tree.
OVERHEAD = 512


@dataclass(frozen=True)
class Sizes:
    """The number of documents, tokens n per document, the hidden size k, and the dtype of stored memories."""

    documents: int = 10_000
    tokens: int = 750
    size: int = 100
    dtype: str = "float32"

    @property
    def hidden_documents(self) -> int:
        """How many documents are also stored with all their states.

        >>> Sizes().hidden_documents, Sizes(documents=10**6).hidden_documents, Sizes(20).hidden_documents
        (10000, 10000, 20)
        """
        return min(self.documents, MOST_HIDDEN)


@dataclass(frozen=True)
class FilledStore:
    """A filled store, one query, and the exact readouts of the first documents."""

    folder: Path
    documents: int
    record_bytes: int
    query: Floats  # [1, k]
    expected: Tensor  # [different, k], float64

    def name(self, number: int) -> str:
        """The name of a document."""
        return f"document {number:,}"

    def names(self, most: int = 50_000) -> list[str]:
        """At most `most` documents in random order."""
        order = np.random.default_rng(1).permutation(self.documents)[:most]
        return [self.name(number) for number in order.tolist()]

    def first_names(self) -> list[str]:
        """The documents whose readouts are known."""
        return [self.name(number) for number in range(len(self.expected))]

    def file_bytes(self) -> int:
        """Bytes on disk per document."""
        return file_size(self.folder) // self.documents


class FilledStores:
    """A context in which stores are filled on demand, of packed memories or of all hidden states."""

    def __init__(self, sizes: Sizes, place: Path | None, progress: Progress) -> None:
        self.sizes, self._progress = sizes, progress
        self._place = Path(tempfile.gettempdir()) if place is None else place
        self._filled: dict[str, FilledStore] = {}

    def __enter__(self) -> "FilledStores":
        check_disk_space(self.sizes, self._place)
        self._folder = tempfile.TemporaryDirectory(prefix="attar-bench-", dir=self._place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """A folder for anything, deleted at the end."""
        return Path(self._folder.name)

    def packed(self) -> FilledStore:
        """The store of packed memories that most rows measure."""
        return self.get("gated", self.sizes.documents, self.sizes.dtype)

    def get(self, mechanism: str, documents: int, dtype: str) -> FilledStore:
        """The store of a mechanism, "gated" or "softmax"."""
        key = f"{mechanism} {documents} {dtype}"
        if key not in self._filled:
            folder = self.folder / key
            self._filled[key] = fill(folder, mechanism, documents, self.sizes, dtype, self._progress)
        return self._filled[key]


def fill(
    folder: Path, mechanism: str, documents: int, sizes: Sizes, dtype: str, progress: Progress
) -> FilledStore:
    """Fill a new store, without waiting for the disk."""
    n, k = sizes.tokens, sizes.size
    rng = np.random.default_rng(0)
    shape = (min(DIFFERENT, documents), n, k)
    hidden = np.float32(k**-0.5) * rng.standard_normal(shape, dtype=np.float32)
    query = rng.standard_normal((1, k), dtype=np.float32)
    records = [_record(mechanism, states, dtype) for states in hidden]
    expected = _expected_readouts(mechanism, hidden, records, query[0])
    filled = FilledStore(folder, documents, len(records[0].memory_data), query, expected)
    with Store.open(folder, dtype=dtype, durability="none") as store:
        for first in range(0, documents, BATCH):
            progress(f"filling a store of {documents:,} documents", first, documents)
            with store.transaction() as changes:
                for number in range(first, min(first + BATCH, documents)):
                    record = records[number % len(records)]
                    entry = msgspec.structs.replace(record.entry, name=filled.name(number))
                    changes.put_record(Record(entry, record.memory_data), READER)
    return filled


def file_size(folder: Path) -> int:
    """The bytes of a store on disk."""
    with Store.open(folder, read_only=True) as store:
        return store.stats().file_bytes


def _record(mechanism: str, states: Floats, dtype: str) -> Record:
    """The record of one random document, with an encoder state as a reader's records have."""
    last = states[-1]
    if mechanism == "softmax":
        memory = Memory.of(mechanism, states, tokens=len(states), reader=READER, state=last)
    else:
        C = states.T @ states
        memory = Memory.of_matrix(C, mechanism=mechanism, tokens=len(states), reader=READER, state=last)
    return Record.of("made up", memory.astype(dtype))


def _expected_readouts(mechanism: str, hidden: Floats, records: Sequence[Record], query: Floats) -> Tensor:
    """Readouts in float64 of memories as they are stored, so that rounding them excuses no other error."""
    q = torch.from_numpy(query).double()
    if mechanism == "softmax":
        return torch.stack([softmax_torch(states, q) for states in torch.from_numpy(hidden).double()])
    memories = [record.memory for record in records]
    matrices = [each.matrix() for each in memories]
    return torch.from_numpy(np.stack(matrices)).double() @ q


def check_disk_space(sizes: Sizes, place: Path) -> None:
    """Refuse to start without enough free space."""
    width = {"float32": 4, "float16": 2, "int8": 1}[sizes.dtype]
    triangle = width * sizes.size * (sizes.size + 1) // 2 + 8 * sizes.size
    needed = sizes.documents * (-(-triangle // PAGE) * PAGE + PAGE // 8 + OVERHEAD)
    needed += sizes.hidden_documents * (4 * sizes.tokens * sizes.size + 2 * PAGE)
    free = shutil.disk_usage(place).free
    if free < needed:
        remedy = "use fewer --documents, --dtype float16, or another --place"
        raise OptionError.expected(
            "--place", f"{quantity(needed, 'B')} free for the stores", quantity(free, "B"), remedy
        )
