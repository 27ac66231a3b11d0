"""Adding and subtracting memories: merging the memories of two texts equals reading both texts.

    linear, gated       C + C', C − C'; states are concatenated while they are smaller than the triangle
    keyed               C + C', C − C'
    named               C_e + C'_e, C_e − C'_e per name, whatever the ids; co-occurrence counts likewise
    phrases             the phrases of both texts; the second text is a new paragraph
    ridge               C + C', G + G', C − C', G − G'; the index of phrases as above, within the fixed size
    softmax             H and H' concatenated; cannot be subtracted
    none                the state of the second text; cannot be subtracted
    decayed, adaptive   the second text's words decide how much of the first is kept: only extending is exact

A sum is float32. Memories that are written with ids can be added only if an id means the same name in both.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attar.errors import OptionError, ShapeError
from attar.memory.budget import FIXED_SIZE, take_phrases, within_budget
from attar.memory.forms import Floats, pad_rows, states_are_smaller
from attar.memory.phrases import PhraseIndex
from attar.text.name_table import NameTable

if TYPE_CHECKING:
    from attar.memory.memory import Memory

_FORGETTING = ("decayed", "adaptive")
_SUBTRACTIVE = ("linear", "gated", "keyed", "named", "phrases", "ridge")


def add(first: "Memory", second: "Memory") -> "Memory":
    """The memory of both texts; it can be extended from where the second text ended."""
    _check_compatible("a + b", first, second)
    if first.mechanism in _FORGETTING:
        remedy = "extend the first memory: Reader.extend(a, text of b)"
        raise OptionError.expected("a + b", "a mechanism without forgetting", repr(first.mechanism), remedy)
    names, places = _merge_names(first, second)
    tokens = first.tokens + second.tokens
    last = second if second.tokens else first
    if first.form == "last":
        return replace(last, tokens=tokens, names=names)
    changes: dict[str, Any] = {"tokens": tokens, "names": names, "state": last.state, "scales": None}
    if first.phrases is not None and second.phrases is not None:
        joined = first.phrases.add(second.phrases)
        if first.form == "phrases":
            return replace(_concatenated(first, second, joined), tokens=tokens)
        numbers = first.to_float32() + second.to_float32()
        both = replace(first, numbers=numbers, phrases=joined, **changes)
        # In int8 it keeps its fixed size; in another precision it has the same phrases.
        return replace(both, phrases=within_budget(both.astype("int8"), FIXED_SIZE).phrases).astype(
            first.dtype
        )
    if first.form == "names":
        numbers = pad_rows(first.to_float32(), len(names))
        # Unbuffered, as two names of the second may be one name here.
        np.add.at(numbers, places, second.to_float32())
        counts = first.cooccurrence
        if counts is not None and second.cooccurrence is not None:
            counts = counts.add(second.cooccurrence, places, len(names))
        return replace(first, numbers=numbers, cooccurrence=counts, **changes)
    both_states = first.form == second.form == "states"
    if first.form == "hidden" or (
        both_states and states_are_smaller(len(first.numbers) + len(second.numbers), first.size)
    ):
        return replace(first, numbers=np.concatenate((first.to_float32(), second.to_float32())), **changes)
    form, a, b = _summable(first, second)
    return replace(first, form=form, numbers=a + b, **changes)


def replace_tail(memory: "Memory", new: "Memory", tokens: int) -> "Memory":
    """A memory of phrases with those of a new text in place of its last window, which has `tokens` tokens.

    The vectors of the other windows stay as they are, so that the result equals reading at once byte by byte.
    """
    assert memory.phrases is not None  # of the form phrases
    assert new.phrases is not None
    index = memory.phrases.before_tail()
    before = take_phrases(memory, np.arange(len(index)), index)
    joined = _concatenated(before, new, index.add(new.phrases, joint=0))
    return replace(joined, tokens=memory.tokens - tokens + new.tokens)


def _concatenated(first: "Memory", second: "Memory", index: PhraseIndex) -> "Memory":
    """The vectors of both in the precision of the first, not rounded again."""
    other = second.astype(first.dtype)
    scales = None
    if first.scales is not None and other.scales is not None:
        scales = np.concatenate((first.scales, other.scales))
    numbers = np.concatenate((first.numbers, other.numbers))
    return replace(first, numbers=numbers, scales=scales, phrases=index)


def subtract(whole: "Memory", part: "Memory") -> "Memory":
    """The memory without what the part added; its names and its encoder state remain."""
    _check_compatible("a - b", whole, part)
    if whole.mechanism not in _SUBTRACTIVE:
        expected = "a mechanism that sums: " + ", ".join(_SUBTRACTIVE)
        raise OptionError.expected("a - b", expected, repr(whole.mechanism), "read the remaining text again")
    if part.tokens > whole.tokens:
        raise OptionError.expected(
            "a - b", f"a part of the {whole.tokens} tokens of a", f"{part.tokens} tokens"
        )
    changes: dict[str, Any] = {"tokens": whole.tokens - part.tokens, "scales": None}
    if whole.phrases is not None and part.phrases is not None:
        return _without_phrases(whole, part, whole.phrases, part.phrases)
    if whole.form == "names":
        places = _find_names(whole, part)
        numbers = pad_rows(whole.to_float32(), len(whole.names))
        np.subtract.at(numbers, places, part.to_float32())
        counts = whole.cooccurrence
        if counts is not None and part.cooccurrence is not None:
            counts = counts.subtract(part.cooccurrence, places)
        return replace(whole, numbers=numbers, cooccurrence=counts, **changes)
    _check_one_table("a - b", whole.names.agrees_with(part.names))
    form, a, b = _summable(whole, part)
    return replace(whole, form=form, numbers=a - b, **changes)


def _without_phrases(whole: "Memory", part: "Memory", index: PhraseIndex, removed: PhraseIndex) -> "Memory":
    """The memory without the phrases of a part; its sentences are left without words, and blank in the tail."""
    first = index.find(removed)
    if first is None:
        remedy = "of a memory within a budget, read the remaining text again"
        raise OptionError.expected(
            "a - b", "a part that was added to a", "another text, or what a budget left", remedy
        )
    count = len(removed.sentence_starts)
    kept = np.flatnonzero((index.sentences < first) | (index.sentences >= first + count))
    sizes = np.diff(index.word_starts.astype(np.int64))
    words = np.concatenate(
        (index.words[: index.word_starts[first]], index.words[index.word_starts[first + count] :])
    )
    sizes[first : first + count] = 0
    starts = np.append(0, np.cumsum(sizes)).astype(np.uint32)
    remaining = replace(index.take(kept), words=words, word_starts=starts, tail=_blanked(index, first, count))
    tokens = whole.tokens - part.tokens
    if whole.form == "phrases":
        return replace(take_phrases(whole, kept, remaining), tokens=tokens)
    numbers = whole.to_float32() - part.to_float32()
    changed = replace(whole, numbers=numbers, scales=None, phrases=remaining, tokens=tokens)
    return changed.astype(whole.dtype)


def _blanked(index: PhraseIndex, first: int, count: int) -> str:
    """The tail with spaces for `count` sentences from `first` on: extending reads the tail again."""
    before = index.characters - len(index.tail)
    tail = index.tail
    for at in range(max(first, index.tail_sentences), first + count):
        start = int(index.sentence_starts[at]) - before
        end = start + int(index.sentence_lengths[at])
        tail = tail[:start] + " " * (end - start) + tail[end:]
    return tail


def _check_compatible(what: str, a: "Memory", b: "Memory") -> None:
    """Refuse memories of different readers, mechanisms or sizes."""
    remedy = "read both texts with one reader"
    if a.reader != b.reader:
        raise OptionError.expected(what, f"memories of reader {a.reader!r}", f"one of {b.reader!r}", remedy)
    if a.mechanism != b.mechanism:
        raise OptionError.expected(what, f"two {a.mechanism} memories", f"{a.mechanism} and {b.mechanism}")
    if a.size != b.size:
        raise ShapeError.expected(what, f"memories of size {a.size}", f"one of size {b.size}")
    if a.form in ("rectangle", "ridge") and a.numbers.shape != b.numbers.shape:
        raise ShapeError.expected(what, str(list(a.numbers.shape)), str(list(b.numbers.shape)), remedy)
    if (a.cooccurrence is None) != (b.cooccurrence is None):
        expected = "co-occurrence counts in both memories or in neither"
        raise OptionError.expected(what, expected, "one with and one without", remedy)


def _check_one_table(what: str, compatible: bool) -> None:
    """Refuse memories in which an id means different names."""
    if not compatible:
        remedy = "read the documents with shared names: Reader.read_many(texts, shared_names=True)"
        raise OptionError.expected(what, "memories with one table of names", "two tables that differ", remedy)


def _merge_names(first: "Memory", second: "Memory") -> tuple[NameTable, list[int]]:
    """One table for both, and the ids that the names of the second have in it."""
    by_name = first.form == "names"
    if by_name:
        _check_rows(second)
    if second.names == first.names:
        return first.names, list(range(len(first.names)))
    _check_one_table("a + b", by_name or first.names.agrees_with(second.names))
    table = first.names.copy()
    learned = table.learn_all(second.names)
    places = [place for place in learned if place is not None]
    if len(places) < len(learned):
        came = f"{len(learned) - len(places)} more"
        raise OptionError.expected(
            "a + b", f"at most {table.limit} names", came, "ask the documents one by one"
        )
    _check_one_table("a + b", by_name or places == list(range(len(places))))
    return table, places


def _find_names(whole: "Memory", part: "Memory") -> list[int]:
    """The ids that the names of the part have in the whole."""
    _check_rows(part)
    resolved = [whole.names.resolve(name.split()) for name in part.names.names]
    missing = [name for name, place in zip(part.names.names, resolved, strict=True) if place is None]
    if missing:
        raise OptionError.expected(
            "a - b", "a part whose names are all in a", f"{missing[0]!r}, which is not"
        )
    return [place for place in resolved if place is not None]


def _check_rows(memory: "Memory") -> None:
    """Refuse a memory that does not have one vector per name."""
    rows, names = len(memory.numbers), len(memory.names)
    if rows != names:
        raise ShapeError.expected("numbers", f"one vector for each of {names} names", str(rows))


def _summable(a: "Memory", b: "Memory") -> tuple[str, Floats, Floats]:
    """Both in one form whose numbers can be added."""
    if "states" in (a.form, b.form):
        a, b = a.to_form("triangle"), b.to_form("triangle")
    return a.form, a.to_float32(), b.to_float32()
