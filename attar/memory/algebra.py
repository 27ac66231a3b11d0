"""Adding and subtracting memories: merging the memories of two texts equals reading both texts.

phrases     the phrases of both texts; the second text is a new paragraph
ridge       C + C', G + G', C − C', G − G'; the index of phrases as above, within the fixed size
"""

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, ReaderMismatchError, ShapeError
from attar.memory.phrases import PhraseIndex

if TYPE_CHECKING:
    from attar.memory.memory import Memory


def add(first: "Memory", second: "Memory") -> "Memory":
    """The memory of both texts; it can be extended from where the second text ended."""
    _check_compatible("a + b", first, second)
    index, tokens = first.phrases.add(second.phrases), first.tokens + second.tokens
    if first.form == "phrases":
        return _concatenated(first, second, index, tokens)
    sums = first.dequantized + second.dequantized
    return within_budget(first.with_numbers(sums, phrases=index, tokens=tokens), FIXED_SIZE)


def replace_tail(memory: "Memory", new: "Memory", tokens: int) -> "Memory":
    """A memory of phrases whose last window, of `tokens` tokens, is replaced by a new text.

    The vectors of the other windows stay as they are, so that the result equals reading at once byte by byte.
    """
    index = memory.phrases.before_tail()
    before = take_phrases(memory, np.arange(len(index)), index)
    joined = index.add(new.phrases, joint=0)
    return _concatenated(before, new, joined, memory.tokens - tokens + new.tokens)


def _concatenated(first: "Memory", second: "Memory", index: PhraseIndex, tokens: int) -> "Memory":
    """The vectors of both, not rounded again."""
    return replace(
        first,
        numbers=np.concatenate((first.numbers, second.numbers)),
        scales=np.concatenate((first.scales, second.scales)),
        phrases=index,
        tokens=tokens,
    )


def subtract(whole: "Memory", part: "Memory") -> "Memory":
    """The memory without what the part added: its sentences are left without words, and blank in the tail."""
    _check_compatible("a - b", whole, part)
    tokens = whole.tokens - part.tokens
    if tokens < 0:
        expected = f"a part of the {whole.tokens} tokens of a"
        raise OptionError.expected("a - b", expected, f"{part.tokens} tokens")
    index = whole.phrases
    first = index.find(part.phrases)
    if first is None:
        remedy = "if a or b has a budget, read the remaining text again"
        raise OptionError("a - b: b is not a text that was added to a", remedy)
    end = first + len(part.phrases.sentence_starts)
    rest = np.flatnonzero((index.sentences < first) | (index.sentences >= end))
    remaining = _without_sentences(index.take(rest), first, end)
    if whole.form == "phrases":
        return replace(take_phrases(whole, rest, remaining), tokens=tokens)
    return whole.with_numbers(whole.dequantized - part.dequantized, phrases=remaining, tokens=tokens)


def _without_sentences(index: PhraseIndex, first: int, end: int) -> PhraseIndex:
    """The index without the words of the sentences from `first` to `end`, whose places stay."""
    sizes = np.diff(index.word_starts)
    sizes[first:end] = 0
    return replace(
        index,
        words=np.concatenate(
            (index.words[: index.word_starts[first]], index.words[index.word_starts[end] :])
        ),
        word_starts=np.append(0, np.cumsum(sizes)),
        tail=_blanked_tail(index, first, end),
    )


def _blanked_tail(index: PhraseIndex, first: int, end: int) -> str:
    """The tail with spaces for the sentences from `first` to `end`: extending reads the tail again."""
    before = index.characters - len(index.tail)
    tail = index.tail
    for sentence in range(max(first, index.tail_sentences), end):
        start = int(index.sentence_starts[sentence]) - before
        stop = start + int(index.sentence_lengths[sentence])
        tail = tail[:start] + " " * (stop - start) + tail[stop:]
    return tail


def _check_compatible(what: str, a: "Memory", b: "Memory") -> None:
    remedy = "read both texts with one reader"
    if a.reader != b.reader:
        raise ReaderMismatchError(
            f"{what}: the memories are of two readers, {a.reader!r} and {b.reader!r}", remedy
        )
    if a.form != b.form:
        raise OptionError.expected(what, f"two memories of form {a.form}", f"{a.form} and {b.form}")
    if a.size != b.size or (a.form == "ridge" and a.numbers.shape != b.numbers.shape):
        raise ShapeError.expected(what, str(list(a.numbers.shape)), str(list(b.numbers.shape)), remedy)


# The most bytes of a record of the form ridge: numbers in int8, index, header, all included.
FIXED_SIZE = 16_384
# The least that a phrase takes in an index, except in texts that repeat themselves: no more phrases are tried.
_BYTES_PER_PHRASE = 3
# The last window takes at most this part of what a budget leaves for phrases: an eighth.
_TAIL = 8
# The words of one sentence take at most a quarter of it.
_WORDS = 4


def within_budget(memory: "Memory", budget: int | None) -> "Memory":
    """The memory with as many of the likeliest phrases, and of their sentences, as a record of `budget` bytes holds.

    Without a budget (None, 0), all of them. Without its last window if that took too much of it: what is appended then
    begins a new window. Only a budget that is too small for a record without phrases is refused.
    """
    if not budget or len(memory.to_bytes()) <= budget:
        return memory
    order = np.argsort(-memory.phrases.priors, kind="stable")
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
    best = _likeliest(memory, index, order[:0], room)
    low, high = 0, min(len(order), room // bytes_each)
    while low < high:
        middle = (low + high + 1) // 2
        candidate = _likeliest(memory, index, order[:middle], room)
        if len(candidate.to_bytes()) <= budget:
            low, best = middle, candidate
        else:
            high = middle - 1
    return best


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
    sizes = np.diff(index.word_starts)
    has_words = has_phrase & (sizes * index.words.itemsize <= most_bytes)
    stays = has_phrase | np.append(True, has_phrase)[:count] | (np.arange(count) == tail)
    first = np.flatnonzero(stays)
    ends = index.sentence_starts + index.sentence_lengths
    return replace(
        index,
        sentences=(np.cumsum(stays) - 1)[index.sentences].astype(np.uint32),
        sentence_starts=index.sentence_starts[first],
        sentence_lengths=ends[np.append(first[1:], count)[: len(first)] - 1] - index.sentence_starts[first],
        word_starts=np.append(0, np.cumsum(np.where(has_words, sizes, 0)[first])),
        words=index.words[np.repeat(has_words, sizes)],
        tail_sentences=int(stays[:tail].sum()),
    )


def _without_tail(index: PhraseIndex) -> PhraseIndex:
    count = len(index.sentence_starts)
    return replace(index, tail="", tail_phrases=len(index), tail_sentences=count)
