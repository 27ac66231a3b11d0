"""Stores of made-up memories to measure: filled when they are first needed, gone when all is measured."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import msgspec
import numpy as np
import torch
from torch import Tensor

from attar.bench.peers import Floats, softmax_torch
from attar.bench.tables import quantity
from attar.errors import OptionError
from attar.memory import Memory
from attar.store import Record, Store

READER = "made up"
# Different memories made; the documents repeat them, each copy in pages of its own.
DIFFERENT = 64
# Documents whose states are stored, at most: 3 GB of them.
MOST_HIDDEN = 10_000
# Documents in one change to the store.
AT_ONCE = 1_000
# LMDB keeps a large value in pages of its own.
PAGE = 4096
# What a document takes beside its memory: facts, keys, and the inner pages of the tree.
BESIDE = 512

Tell = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Sizes:
    """How large a store of made-up memories is: documents of n tokens, k numbers each, as what they are kept."""

    documents: int = 10_000
    tokens: int = 750
    size: int = 100
    dtype: str = "float32"


@dataclass(frozen=True)
class Pile:
    """The documents of a filled store, by number, and the exact readouts of the first of them."""

    folder: Path
    documents: int
    record_bytes: int
    query: Floats  # [1, k]
    expected: Tensor  # [different, k], float64

    def name(self, number: int) -> str:
        """A document's name."""
        return f"document {number:,}"

    def names(self, most: int = 50_000) -> list[str]:
        """All documents in a random order, or some where they are very many."""
        order = np.random.default_rng(1).permutation(self.documents)[:most]
        return [self.name(number) for number in order.tolist()]

    def file_bytes(self) -> int:
        """What a document takes of the disk, on the average."""
        with Store.open(self.folder, read_only=True) as store:
            return store.stats().file_bytes // self.documents


class Piles:
    """Filled stores, one of packed memories and one of all hidden states; its end deletes them."""

    def __init__(self, sizes: Sizes, place: Path | None, tell: Tell) -> None:
        self.sizes, self._tell = sizes, tell
        self._place = Path(tempfile.gettempdir()) if place is None else place
        self._made: dict[str, Pile] = {}

    def __enter__(self) -> "Piles":
        refuse_full_disk(self.sizes, self._place)
        self._folder = tempfile.TemporaryDirectory(prefix="attar-bench-", dir=self._place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """Where anything may be written until the end."""
        return Path(self._folder.name)

    def of(self, mechanism: str, documents: int, dtype: str) -> Pile:
        """The store of so many documents, as "gated" or "softmax" reads them."""
        key = f"{mechanism} {documents} {dtype}"
        if key not in self._made:
            self._made[key] = fill(self.folder / key, mechanism, documents, self.sizes, dtype, self._tell)
        return self._made[key]


def fill(folder: Path, mechanism: str, documents: int, sizes: Sizes, dtype: str, tell: Tell) -> Pile:
    """Fill a new store, without waiting for the disk: what a power failure would cost is made up anyway."""
    n, k = sizes.tokens, sizes.size
    rng = np.random.default_rng(0)
    shape = (min(DIFFERENT, documents), n, k)
    hidden = np.float32(k**-0.5) * rng.standard_normal(shape, dtype=np.float32)
    query = rng.standard_normal((1, k), dtype=np.float32)
    records = [record_of(mechanism, states, dtype) for states in hidden]
    with Store.open(folder, dtype=dtype, durability="none") as store:
        pile = Pile(
            folder,
            documents,
            len(records[0].memory_data),
            query,
            readouts(mechanism, hidden, records, query[0]),
        )
        for first in range(0, documents, AT_ONCE):
            tell(first, documents, f"filling a store of {documents:,} documents")
            with store.transaction() as changes:
                for number in range(first, min(first + AT_ONCE, documents)):
                    record = records[number % len(records)]
                    facts = msgspec.structs.replace(record.entry, name=pile.name(number))
                    changes.put_record(Record(facts, record.memory_data), READER)
    return pile


def record_of(mechanism: str, states: Floats, dtype: str) -> Record:
    """The record of one made-up document: as a reader's, with a state to read on from."""
    last = states[-1]
    if mechanism == "softmax":
        memory = Memory.of(mechanism, states, tokens=len(states), reader=READER, state=last)
    else:
        C = states.T @ states
        memory = Memory.of_matrix(C, mechanism=mechanism, tokens=len(states), reader=READER, state=last)
    return Record.of("made up", memory.astype(dtype))


def readouts(mechanism: str, hidden: Floats, records: Sequence[Record], query: Floats) -> Tensor:
    """What a lookup should find, in float64: of a memory as it is kept, so that rounding excuses nothing."""
    q = torch.from_numpy(query).double()
    if mechanism == "softmax":
        return torch.stack([softmax_torch(states, q) for states in torch.from_numpy(hidden).double()])
    matrices = [record.memory.matrix() for record in records]
    return torch.from_numpy(np.stack(matrices)).double() @ q


def refuse_full_disk(sizes: Sizes, place: Path) -> None:
    """Ask for the space before anything is written."""
    width = {"float32": 4, "float16": 2, "int8": 1}[sizes.dtype]
    triangle = width * sizes.size * (sizes.size + 1) // 2 + 8 * sizes.size
    needed = sizes.documents * (-(-triangle // PAGE) * PAGE + PAGE // 8 + BESIDE)
    needed += hidden_documents(sizes) * (4 * sizes.tokens * sizes.size + 2 * PAGE)
    free = shutil.disk_usage(place).free
    if free < needed:
        remedy = "ask for fewer --documents, --dtype float16, or another --place"
        raise OptionError(
            "--place", f"{quantity(needed, 'B')} free for the stores", quantity(free, "B"), remedy
        )


def hidden_documents(sizes: Sizes) -> int:
    """How many documents are stored with all their states: all of them, while that is not too much to ask.

    >>> hidden_documents(Sizes()), hidden_documents(Sizes(documents=10**6)), hidden_documents(Sizes(20))
    (10000, 10000, 20)
    """
    return min(sizes.documents, MOST_HIDDEN)
