"""Memories of phrases within a number of bytes."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.memory.phrases import PhraseIndex

if TYPE_CHECKING:
    from attar.memory.memory import Memory


def within_budget(memory: "Memory", budget: int) -> "Memory":
    """The memory with only as many phrases, the likeliest to be asked about, as `budget` bytes hold."""
    index = memory.phrases
    if index is None or memory.nbytes <= budget:
        return memory
    order = np.argsort(-index.priors.astype(np.float32), kind="stable")
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _likeliest(memory, index, order[:middle]).nbytes <= budget:
            low = middle
        else:
            high = middle - 1
    smallest = _likeliest(memory, index, order[:low])
    if smallest.nbytes > budget:
        remedy = "give more, or no budget"
        raise OptionError("budget", f"at least {smallest.nbytes} bytes for this text", str(budget), remedy)
    return smallest


def _likeliest(memory: "Memory", index: PhraseIndex, chosen: NDArray[np.intp]) -> "Memory":
    kept = np.sort(chosen)
    return take_phrases(memory, kept, index.take(kept))


def take_phrases(memory: "Memory", kept: NDArray[np.intp], index: PhraseIndex) -> "Memory":
    """The memory with some of its phrases, whose index is given; their vectors are not rounded again."""
    if memory.form == "ridge":  # its sums stay; there is less to choose from
        return replace(memory, phrases=index)
    scales = None if memory.scales is None else memory.scales[kept]
    return replace(memory, numbers=memory.numbers[kept], scales=scales, phrases=index)
