"""Rows with a reader: what adding documents costs beside reading them, and what rounding does to answers."""

from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attar.bench.case import Case, Contender, Goal, Measurement, duel
from attar.bench.clocks import WallClock
from attar.bench.stories import tell_stories
from attar.cloze import EncodedSplit
from attar.memory import FORMS_OF, Memory
from attar.nn import Documents, Memories, Network
from attar.reader import Reader
from attar.store import Store
from attar.text import NameTable, Vocabulary
from attar.training import evaluate

# About 750 tokens, as the documents of the other rows.
STORIES_A_DOCUMENT = 4
# Of the share of right answers: 0.3 points.
MAY_LOSE = 0.003


def adding_case(reader: Path | None, folder: Path, clock: WallClock, documents: int) -> Case:
    """The row of adding documents."""
    goal = Goal(1.15, at_least=False)
    what = f"adding {documents} documents of stories in one change, on the disk when it ends, texts kept"
    return Case(what, "reading alone", goal, lambda: beside_reading(goal, clock, reader, folder, documents))


def beside_reading(
    goal: Goal, clock: WallClock, path: Path | None, folder: Path, documents: int
) -> Measurement:
    """Reading and writing to a store, beside reading."""
    reader = Reader.load(path)
    stories = tell_stories(0, STORIES_A_DOCUMENT * documents)
    texts = [" ".join(story.text for story in islice(stories, STORIES_A_DOCUMENT)) for _ in range(documents)]
    numbers = count()
    with Store.open(folder / "added", reader=reader.fingerprint) as store:

        def add() -> list[str]:
            names = [f"document {next(numbers)}" for _ in texts]
            memories = reader.read_many(texts)
            with store.transaction() as changes:
                for name, memory, text in zip(names, memories, texts, strict=True):
                    changes.put(name, memory, text=text)
            return names

        def error() -> float:
            wanted = reader.read_many(texts)
            found = [store.memory(name) for name in add()]
            return 0.0 if found == wanted else float("inf")

        ours = Contender("adding", add, error, 0.0)
        rival = Contender("reading alone", lambda: reader.read_many(texts), lambda: 0.0, 0.0)
        return duel(goal, ours, [rival], clock)


def accuracy_cases(data: Sequence[Path], path: Path | None, batch: int = 64) -> list[Case]:
    """The rows of rounded memories, on the test split of cloze sets."""
    from attar.reader import DEFAULT, load_reader
    from attar.training import open_splits

    saved = load_reader(path or DEFAULT)
    split = open_splits(list(data), "test", saved.vocabulary)
    exact: list[float] = []

    def measured(dtype: str, goal: Goal) -> Measurement:
        if not exact:
            exact.append(accuracy_with(saved.network, saved.vocabulary, split, "float32", batch))
        ours = accuracy_with(saved.network, saved.vocabulary, split, dtype, batch)
        least = exact[0] - MAY_LOSE
        ratio = ours / max(least, 1e-9)
        note = (
            f"{dtype} {100 * ours:.2f} %, float32 {100 * exact[0]:.2f} % of {len(split.answers):,} questions"
        )
        return Measurement(ratio, ratio, ratio, ours, least, "%", note=note)

    goal = Goal(1)

    def case(dtype: str) -> Case:
        what = f"right answers from {dtype} memories, {saved.network.options.mechanism} reader"
        return Case(what, "float32's less 0.3 points", goal, lambda: measured(dtype, goal))

    return [case("float16"), case("int8")]


def accuracy_with(
    network: Network, vocabulary: Vocabulary, split: EncodedSplit, dtype: str, batch: int
) -> float:
    """The share of right answers from memories that were kept in a type of number."""
    return evaluate(RoundedNetwork.of(network, dtype), vocabulary, split, batch_size=batch).whole.accuracy


class RoundedNetwork(Network):
    """A network that forgets of its memories what a store's type of number cannot hold."""

    dtype: str

    @classmethod
    def of(cls, network: Network, dtype: str) -> "RoundedNetwork":
        """The same network, its parameters shared."""
        rounded = cls.__new__(cls)
        rounded.__dict__.update(network.__dict__)
        rounded.dtype = dtype
        return rounded

    def read(
        self, documents: Documents, *, state: Tensor | None = None, memories: Memories | None = None
    ) -> tuple[Memories, Tensor]:
        """The memories of documents as they come back from a store."""
        read, state = super().read(documents, state=state, memories=memories)
        tokens = read.tokens.tolist()
        rows = [
            kept(self.options.mechanism, numbers.cpu().numpy(), count, self.dtype)
            for numbers, count in zip(read.state.float(), tokens, strict=True)
        ]
        return Memories(torch.from_numpy(np.stack(rows)).to(read.state.device), read.tokens), state


def kept(mechanism: str, numbers: Any, tokens: int, dtype: str) -> Any:
    """What one memory's array is after it was kept in a type of number.

    >>> (kept("none", np.array([1.0, 0.301], np.float32), 3, "int8") * 127).round().tolist()
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
