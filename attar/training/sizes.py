"""What a reader keeps of documents: the bytes of their memories, as a store writes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attar.cloze import ClozeDocument
from attar.errors import OptionError
from attar.memory import Memory
from attar.progress import Progress, tell_nobody
from attar.reader import Reader

# Means over so many documents of a source are within a few per cent of those over all.
SAMPLE = 256
PRECISIONS = ("float16", "int8")


@dataclass(frozen=True)
class MemorySize:
    """Means over documents: tokens, names, and bytes by type of number."""

    documents: int
    tokens: float
    names: float
    bytes: dict[str, float]


def sample_by_source(
    documents: Iterable[ClozeDocument], most: int = SAMPLE
) -> dict[str, list[ClozeDocument]]:
    """So many documents of each source at most, every one of them as likely as any other."""
    rng = np.random.default_rng(0)
    kept: dict[str, list[ClozeDocument]] = {}
    seen: dict[str, int] = {}
    for document in documents:
        own, before = kept.setdefault(document.source, []), seen.get(document.source, 0)
        seen[document.source] = before + 1
        if before < most:
            own.append(document)
        elif (place := int(rng.integers(before + 1))) < most:
            own[place] = document
    return kept


def measure_memories(
    reader: Reader, sample: Mapping[str, Sequence[ClozeDocument]], progress: Progress = tell_nobody
) -> dict[str, MemorySize]:
    """What the memories of each source's documents take, read as a user's text is, names found anew."""
    return {
        source: mean_size(reader.read_many([each.text() for each in documents], progress=progress))
        for source, documents in sample.items()
    }


def mean_size(memories: Sequence[Memory]) -> MemorySize:
    """The means over memories; numbers too large for a type are not kept in it."""
    sizes: dict[str, float] = {}
    for precision in PRECISIONS:
        try:
            written = [len(memory.astype(precision).to_bytes()) for memory in memories]
        except OptionError:
            continue
        sizes[precision] = float(np.mean(written))
    tokens = float(np.mean([memory.tokens for memory in memories]))
    names = float(np.mean([len(memory.names) for memory in memories]))
    return MemorySize(len(memories), tokens, names, sizes)
