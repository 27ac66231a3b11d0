"""Memories of phrases within a number of bytes, whatever the length of their text.

What is least likely to be asked about goes first: phrases by their priors, and a sentence with its last phrase. At the
same number of bytes, words of sentences without a phrase are worth less than more phrases (benchmarks/LOG.md).
"""

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.memory.phrases import PhraseIndex

if TYPE_CHECKING:
    from attar.memory.memory import Memory

# The most bytes of a record of the form ridge: numbers in int8, index, header, all included.
FIXED_SIZE = 16_384
# The least that a phrase takes in an index, except in texts that repeat themselves: no more phrases are tried.
_BYTES_PER_PHRASE = 3
# The last window takes at most this part of what a budget leaves for phrases: an eighth.
_TAIL = 8
# The words of one sentence take at most a quarter of it.
_WORDS = 4


def within_budget(memory: "Memory", budget: int) -> "Memory":
    """The memory with as many of the likeliest phrases, and of their sentences, as a record of `budget` bytes holds.

    Without its last window if that took too much of it: what is appended then begins a new window. Only a budget that
    is too small for a record without phrases is refused.
    """
    if len(memory.to_bytes()) <= budget:
        return memory
    order = np.argsort(-memory.phrases.priors.astype(np.float32), kind="stable")
    smallest = len(_likeliest(memory, _without_tail(memory.phrases), order[:0], 0).to_bytes())
    room = budget - smallest
    if room < 0:
        raise OptionError.expected(
            "budget", f"at least {smallest:,} bytes", f"{budget:,}", "give more, or no budget"
        )
    index = memory.phrases
    if len(zlib.compress(index.tail.encode("utf-8", "surrogatepass"), 9)) * _TAIL > room:
        index = _without_tail(index)
    bytes_each = _BYTES_PER_PHRASE + (memory.size if memory.form == "phrases" else 0)
    low, high = 0, min(len(order), room // bytes_each)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_likeliest(memory, index, order[:middle], room).to_bytes()) <= budget:
            low = middle
        else:
            high = middle - 1
    return _likeliest(memory, index, order[:low], room)


def take_phrases(memory: "Memory", chosen: NDArray[np.intp], index: PhraseIndex) -> "Memory":
    """The memory with some of its phrases, whose index is given; their vectors are not rounded again."""
    if memory.form == "ridge":  # its sums stay; there is less to choose from
        return replace(memory, phrases=index)
    return replace(memory, numbers=memory.numbers[chosen], scales=memory.scales[chosen], phrases=index)


def _likeliest(memory: "Memory", index: PhraseIndex, chosen: NDArray[np.intp], room: int) -> "Memory":
    """The memory with the chosen phrases and their sentences."""
    in_order = np.sort(chosen)
    return take_phrases(memory, in_order, _with_sentences_of_phrases(index.take(in_order), room // _WORDS))


def _with_sentences_of_phrases(index: PhraseIndex, most_bytes: int) -> PhraseIndex:
    """The index without sentences that have no phrase, and without words of sentences that have too many.

    Sentences that follow each other and are left out become one without words: the others must not become neighbours.
    """
    count, tail = len(index.sentence_starts), index.tail_sentences
    has_phrase = np.zeros(count, np.bool_)
    has_phrase[index.sentences] = True
    bounds = index.word_starts.astype(np.int64)
    sizes = bounds[1:] - bounds[:-1]
    has_words = has_phrase & (sizes * index.words.itemsize <= most_bytes)
    stays = has_phrase | np.append(True, has_phrase)[:count] | (np.arange(count) == tail)
    first = np.flatnonzero(stays)
    ends = index.sentence_starts + index.sentence_lengths
    return replace(
        index,
        sentences=(np.cumsum(stays) - 1)[index.sentences].astype(np.uint32),
        sentence_starts=index.sentence_starts[first],
        sentence_lengths=ends[np.append(first[1:], count)[: len(first)] - 1] - index.sentence_starts[first],
        word_starts=np.append(0, np.cumsum(np.where(has_words, sizes, 0)[first])).astype(np.uint32),
        words=index.words[np.repeat(has_words, sizes.astype(np.int64))],
        tail_sentences=int(stays[:tail].sum()),
    )


def _without_tail(index: PhraseIndex) -> PhraseIndex:
    count = len(index.sentence_starts)
    return replace(index, tail="", tail_phrases=len(index), tail_sentences=count)
