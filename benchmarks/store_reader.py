"""Store rows that need a reader: adding documents compared with reading them, and accuracy after rounding."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attar.bench.cost import Contender, Timer
from attar.cloze.encoded import EncodedSplit
from attar.memory.forms import FORMS_OF
from attar.memory.memory import Memory
from attar.nn.mechanisms.base import Memories
from attar.nn.network import Documents, Network
from attar.reader.files import load_reader
from attar.reader.folders import SHIPPED
from attar.reader.reader import Reader
from attar.store.store import Store
from attar.text.name_table import NameTable
from attar.text.vocabulary import Vocabulary
from attar.training.data import open_splits
from attar.training.evaluation import evaluate
from benchmarks.comparison import Case, Comparison, Goal, compare
from benchmarks.stories import story_texts

# What a library stores by default.
_DTYPE = "float16"
# The accuracy that rounding may cost: 0.3 points.
MAY_LOSE = 0.003


def adding_case(reader: Path | None, folder: Path, timer: Timer, documents: int) -> Case:
    """The case of adding documents."""
    what = f"adding {documents} documents of stories in one transaction, synced to disk, texts kept"
    goal = Goal(1.15, at_least=False)
    return Case(what, "reading alone", goal, lambda: adding_vs_reading(timer, reader, folder, documents))


def adding_vs_reading(timer: Timer, path: Path | None, folder: Path, documents: int) -> Comparison:
    """Reading texts and writing them to a store, compared with reading alone."""
    reader = Reader.load(path)
    texts = story_texts(documents)
    numbers = count()
    with Store.open(folder / "added", reader=reader.fingerprint, dtype=_DTYPE) as store:

        def add() -> list[str]:
            names = [f"document {next(numbers)}" for _ in texts]
            memories = reader.read_many(texts)
            with store.transaction() as changes:
                for name, memory, text in zip(names, memories, texts, strict=True):
                    changes.put(name, memory, text=text)
            return names

        def error() -> float:
            expected = [memory.astype(_DTYPE) for memory in reader.read_many(texts)]
            return 0.0 if [store.memory(name) for name in add()] == expected else float("inf")

        reading = Contender("reading alone", lambda: reader.read_many(texts))
        return compare(Contender("adding", add, error), [reading], timer)


def accuracy_cases(data: Sequence[Path], path: Path | None, batch: int = 64) -> list[Case]:
    """The cases of rounded memories, on the test split of cloze sets."""
    saved = load_reader(path or SHIPPED / "names")
    split = open_splits(list(data), "test", saved.vocabulary)
    exact: list[float] = []

    def measured(dtype: str) -> Comparison:
        if not exact:
            exact.append(accuracy_with(saved.network, saved.vocabulary, split, "float32", batch))
        rounded = accuracy_with(saved.network, saved.vocabulary, split, dtype, batch)
        shares = f"{dtype} {100 * rounded:.2f} %, float32 {100 * exact[0]:.2f} %"
        note = f"{shares} of {len(split.answers):,} questions"
        least = max(exact[0] - MAY_LOSE, 1e-9)
        return Comparison([rounded], [least], "%", note=note, higher_is_better=True)

    def case(dtype: str) -> Case:
        what = f"accuracy with {dtype} memories, {saved.network.options.mechanism} reader"
        return Case(what, "float32's less 0.3 points", Goal(1), lambda: measured(dtype))

    return [case("float16"), case("int8")]


def accuracy_with(
    network: Network, vocabulary: Vocabulary, split: EncodedSplit, dtype: str, batch: int
) -> float:
    """The accuracy of answers from memories that were stored in a dtype."""
    return evaluate(RoundedNetwork.of(network, dtype), vocabulary, split, batch_size=batch).whole.accuracy


class RoundedNetwork(Network):
    """A network whose memories are rounded to a store's dtype."""

    dtype: str

    @classmethod
    def of(cls, network: Network, dtype: str) -> "RoundedNetwork":
        """The same network; parameters are shared."""
        rounded = cls.__new__(cls)
        rounded.__dict__.update(network.__dict__)
        rounded.dtype = dtype
        return rounded

    def read(
        self, documents: Documents, *, state: Tensor | None = None, memories: Memories | None = None
    ) -> tuple[Memories, Tensor]:
        """The memories of documents as a store returns them."""
        read, state = super().read(documents, state=state, memories=memories)
        rows = [
            round_memory(self.options.mechanism, numbers.cpu().numpy(), count, self.dtype)
            for numbers, count in zip(read.state.float(), read.tokens.tolist(), strict=True)
        ]
        return Memories(torch.from_numpy(np.stack(rows)).to(read.state.device), read.tokens), state


def round_memory(mechanism: str, numbers: Any, tokens: int, dtype: str) -> Any:
    """One memory's array after it was stored in a dtype.

    >>> (round_memory("none", np.array([1.0, 0.301], np.float32), 3, "int8") * 127).round().tolist()
    [127.0, 38.0]
    """
    form = FORMS_OF[mechanism][0]
    if form == "triangle":
        memory = Memory.of(mechanism, numbers, tokens=tokens, reader="")
    else:
        size = numbers.shape[0 if form == "rectangle" else -1]
        nothing = np.zeros(0, np.float32)
        memory = Memory(form, numbers, None, tokens, size, nothing, NameTable(), mechanism, "")
    return memory.astype(dtype).array()
