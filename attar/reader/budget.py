"""Memories of phrases that take no more than some bytes: the phrases least likely to be asked about are dropped."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.memory import Memory, PhraseIndex


def within_budget(memory: Memory, budget: int) -> Memory:
    """The memory with only as many phrases, the likeliest to be asked about, as `budget` bytes hold."""
    index = memory.phrases
    if index is None or memory.nbytes <= budget:
        return memory
    order = np.argsort(-index.priors.astype(np.float32), kind="stable")
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _take(memory, index, order[:middle]).nbytes <= budget:
            low = middle
        else:
            high = middle - 1
    smallest = _take(memory, index, order[:low])
    if smallest.nbytes > budget:
        remedy = "give more, or no budget"
        raise OptionError("budget", f"at least {smallest.nbytes} bytes for this text", str(budget), remedy)
    return smallest


def _take(memory: Memory, index: PhraseIndex, chosen: NDArray[np.intp]) -> Memory:
    kept = np.sort(chosen)
    if memory.form == "ridge":  # its sums stay; there is less to choose from
        return replace(memory, phrases=index.take(kept))
    assert memory.scales is not None  # int8
    return replace(memory, numbers=memory.numbers[kept], scales=memory.scales[kept], phrases=index.take(kept))
