"""Adding and subtracting memories: merging the memories of two texts equals reading both texts.

phrases     the phrases of both texts; the second text is a new paragraph
ridge       C + C', G + G', C − C', G − G'; the index of phrases as above, within the fixed size
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attar.errors import OptionError, ReaderMismatchError, ShapeError
from attar.memory.budget import FIXED_SIZE, take_phrases, within_budget
from attar.memory.forms import quantize
from attar.memory.phrases import PhraseIndex

if TYPE_CHECKING:
    from attar.memory.memory import Memory


def add(first: "Memory", second: "Memory") -> "Memory":
    """The memory of both texts; it can be extended from where the second text ended."""
    _check_compatible("a + b", first, second)
    index, tokens = first.phrases.add(second.phrases), first.tokens + second.tokens
    if first.form == "phrases":
        return _concatenated(first, second, index, tokens)
    numbers, scales = quantize(first.dequantized + second.dequantized)
    both = replace(first, numbers=numbers, scales=scales, phrases=index, tokens=tokens)
    return within_budget(both, FIXED_SIZE)


def replace_tail(memory: "Memory", new: "Memory", tokens: int) -> "Memory":
    """A memory of phrases with those of a new text in place of its last window, which has `tokens` tokens.

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
    numbers, scales = quantize(whole.dequantized - part.dequantized)
    return replace(whole, numbers=numbers, scales=scales, phrases=remaining, tokens=tokens)


def _without_sentences(index: PhraseIndex, first: int, end: int) -> PhraseIndex:
    """The index without the words of the sentences from `first` to `end`, whose places stay."""
    sizes = np.diff(index.word_starts.astype(np.int64))
    sizes[first:end] = 0
    return replace(
        index,
        words=np.concatenate(
            (index.words[: index.word_starts[first]], index.words[index.word_starts[end] :])
        ),
        word_starts=np.append(0, np.cumsum(sizes)).astype(np.uint32),
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
