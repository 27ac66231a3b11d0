"""The company of names counted in texts: the tokens of a sentence, each once, joined with the names it mentions.

Many texts are counted at once, one behind the other: their names get rows one after the other too, and no sentence
reaches into the next text.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attar.errors import OptionError, ShapeError
from attar.memory.company import Company
from attar.memory.entries import Entries, Integers, bits_for, distinct, narrow_ids, narrow_times, starts_of


def count_company(
    names: ArrayLike,
    ids: ArrayLike,
    sentence_ends: ArrayLike,
    *,
    count: int,
    first: int,
    limit: int,
    common: int,
) -> Company:
    """The company of one text: of each token `[n]` the name that it is or -1, its id, whether it ends a sentence.

    Names have the ids from `first` on. Ids below it are left out, and words with ids below `common`.
    """
    lengths, counts = [np.size(ids)], [count]
    found = count_companies(
        names, ids, sentence_ends, lengths, counts=counts, first=first, limit=limit, common=common
    )
    return found[0]


def count_companies(
    names: ArrayLike,
    ids: ArrayLike,
    sentence_ends: ArrayLike,
    lengths: Sequence[int],
    *,
    counts: Sequence[int],
    first: int,
    limit: int,
    common: int,
) -> list[Company]:
    """The companies of texts that lie one behind the other, each of so many tokens and so many names."""
    numbers, tokens, sentences = np.asarray(names), np.asarray(ids), numbered(sentence_ends, lengths)
    if not numbers.shape == tokens.shape == sentences.shape or len(lengths) != len(counts):
        shapes = ", ".join(str(list(array.shape)) for array in (numbers, tokens))
        wanted = f"[{len(sentences)}] and one count of names for each of {len(lengths)} texts"
        raise ShapeError("names and ids", wanted, f"{shapes} and {len(counts)}")
    if max(counts, default=0) > limit:
        raise OptionError("names", f"at most {limit}", str(max(counts)))
    mentions = np.flatnonzero(numbers >= 0)
    mentioned = numbers[mentions]
    texts, rows = (np.array([0, *accumulate(sizes)]) for sizes in (lengths, counts))
    text = texts[1:].searchsorted(mentions, "right")
    check_names(mentioned, tokens[mentions] - first, np.array(counts)[text])
    kept = tokens >= max(common, first + limit)
    kept[mentions] = True

    sentence, bits = sentences[mentions], bits_for(tokens)
    last = int(sentences[-1]) + 1 if len(sentences) else 0
    # Numbers of half the size are sorted in half the time.
    kind: type[np.signedinteger[Any]] = (
        np.int32 if (max(last, int(rows[-1])) + 1) << bits < 2**31 else np.int64
    )
    present, _ = distinct((sentences[kept].astype(kind) << bits) | tokens[kept].astype(kind))
    begins = starts_of(present, bits, last)
    begin = begins[sentence]
    sizes = begins[sentence + 1] - begin
    stops = sizes.cumsum()
    # Of each mention, where the tokens of its sentence lie.
    among = (begin - stops + sizes).repeat(sizes)
    among += np.arange(len(among))
    keys = ((rows[text] + mentioned).astype(kind) << bits).repeat(sizes)
    keys |= present.take(among) & ((1 << bits) - 1)
    return [Company(*entries, first, limit) for entries in split(*distinct(keys), bits, rows)]


def numbered(sentence_ends: ArrayLike, lengths: Sequence[int]) -> NDArray[np.int64]:
    """The number of each token's sentence `[n]`; a text's end ends one.

    >>> numbered([0, 1, 0, 0, 0], [3, 2]).tolist()
    [0, 0, 1, 2, 2]
    """
    ends = np.array(sentence_ends, np.bool_)
    stops = list(accumulate(lengths))
    if ends.shape != (sum(lengths),):
        raise ShapeError("sentence ends", f"[{sum(lengths)}], as long as the texts", str(list(ends.shape)))
    ends[[stop - 1 for stop in stops if stop]] = True
    sentences = ends.cumsum()
    sentences -= ends
    return sentences


def check_names(mentioned: Integers, ids: Integers, counts: Integers) -> None:
    """Refuse names that a text has not, and names with the ids of others."""
    wrong = (mentioned >= counts) | (ids != mentioned)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        wanted = f"numbers below {counts[at]}, their ids as far from the first name's"
        raise OptionError("names", wanted, f"name {mentioned[at]}, whose id is the first + {ids[at]}")


def split(keys: Integers, times: Integers, bits: int, rows: Integers) -> list[Entries]:
    """The entries of each text, whose rows go up to the next one's."""
    starts = starts_of(keys, bits, int(rows[-1]))
    ids, times = narrow_ids(keys & ((1 << bits) - 1)), narrow_times(times)
    if len(rows) == 2:
        return [(starts.astype(np.int32), ids, times)]
    found = []
    for a, b in pairwise(rows.tolist()):
        at = slice(starts[a], starts[b])
        own = (starts[a : b + 1] - starts[a]).astype(np.int32)
        # Copies: one text's entries should not keep those of all in memory.
        found.append((own, narrow_ids(ids[at].copy()), narrow_times(times[at].copy())))
    return found
