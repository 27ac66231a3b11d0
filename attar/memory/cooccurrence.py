"""Co-occurrence: how often each token shared a sentence with each name of a document.

For name e and token w

    times(e, w) = Σ over sentences of (mentions of e in the sentence) · [w occurs in the sentence]

so a name co-occurs with itself as often as it is mentioned. Counts are exact, and add up when texts are merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attar.errors import OptionError, ShapeError
from attar.memory import record
from attar.memory.counting import (
    Integers,
    bits_for,
    check_names,
    entries_of,
    number_sentences,
    row_starts,
    split_texts,
    sum_by_key,
)
from attar.memory.forms import Floats

# log(1 + times) for counts of one byte.
_LOGS: Floats = np.log1p(np.arange(256)).astype(np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Cooccurrence:
    """The tokens that shared a sentence with each name, and how often: a sparse matrix (`attar.memory.counting`).

    Immutable. Here 2 and 3 are the ids of names 0 and 1, and 5 and 7 are words, in the sentences "2 5 2" and "3 2 7":

    >>> names, ids, ends = [0, -1, 0, 1, 0, -1], [2, 5, 2, 3, 2, 7], [0, 0, 1, 0, 0, 1]
    >>> counts, = Cooccurrence.count(names, ids, ends, [6], counts=[2], first=2, limit=3, common=0)
    >>> counts
    <Cooccurrence: 2 names, 7 entries, 33 bytes>
    >>> counts.of(0), counts.of(1)
    ({2: 3, 3: 1, 5: 2, 7: 1}, {2: 1, 3: 1, 7: 1})
    >>> counts.mentions.tolist()
    [3.0, 1.0]
    """

    starts: NDArray[np.int32]  # [count + 1]: where each name's tokens begin in `ids`
    ids: Integers  # [e]: token ids, ascending within a name
    times: Integers  # [e]
    first: int  # the id of name 0; name j has the id first + j
    limit: int  # how many ids are reserved for names

    def __post_init__(self) -> None:
        for array in (self.starts, self.ids, self.times):
            array.flags.writeable = False

    @classmethod
    def empty(cls, count: int, first: int, limit: int) -> "Cooccurrence":
        """The counts of `count` names before anything was read."""
        return cls(np.zeros(count + 1, np.int32), np.zeros(0, np.uint16), np.zeros(0, np.uint8), first, limit)

    @classmethod
    def count(
        cls,
        names: ArrayLike,
        ids: ArrayLike,
        sentence_ends: ArrayLike,
        lengths: Sequence[int],
        *,
        counts: Sequence[int],
        first: int,
        limit: int,
        common: int,
    ) -> "list[Cooccurrence]":
        """The counts of concatenated texts, with `lengths` tokens and `counts` names each.

        For each token `[n]`: the number of the name that it is, or -1; its id; whether it ends a sentence. The
        `limit` ids from `first` on are those of names. Ids below `first` and words with ids below `common` are not
        counted.
        """
        numbers, tokens, sentences = map(np.asarray, (names, ids, number_sentences(sentence_ends, lengths)))
        if not numbers.shape == tokens.shape == sentences.shape or len(lengths) != len(counts):
            expected = f"[{len(sentences)}] and one count of names for each of {len(lengths)} texts"
            came = f"{list(numbers.shape)}, {list(tokens.shape)} and {len(counts)}"
            raise ShapeError.expected("names and ids", expected, came)
        if max(counts, default=0) > limit:
            raise OptionError.expected("names", f"at most {limit}", str(max(counts)))
        mentions = np.flatnonzero(numbers >= 0)
        mentioned = numbers[mentions]
        # All texts are counted at once: their names get consecutive rows, and no sentence spans two texts.
        text_starts, rows = (np.array([0, *accumulate(sizes)]) for sizes in (lengths, counts))
        text = text_starts[1:].searchsorted(mentions, "right")
        check_names(mentioned, tokens[mentions] - first, np.array(counts)[text])
        counted = tokens >= max(common, first + limit)
        counted[mentions] = True

        sentence, bits = sentences[mentions], bits_for(tokens)
        sentence_count = int(sentences[-1]) + 1 if len(sentences) else 0
        # int32 keys are sorted in half the time of int64 ones.
        fits = (max(sentence_count, int(rows[-1])) + 1) << bits < 2**31
        kind: type[np.signedinteger[Any]] = np.int32 if fits else np.int64
        # The distinct tokens of each sentence, by sentence.
        present = np.unique((sentences[counted].astype(kind) << bits) | tokens[counted].astype(kind))
        begins = row_starts(present, bits, sentence_count)
        begin = begins[sentence]
        sizes = begins[sentence + 1] - begin
        # For each mention, the positions of its sentence's tokens in `present`.
        positions = (begin - sizes.cumsum() + sizes).repeat(sizes)
        positions += np.arange(len(positions))
        keys = ((rows[text] + mentioned).astype(kind) << bits).repeat(sizes)
        keys |= present.take(positions) & ((1 << bits) - 1)
        entries = split_texts(*np.unique(keys, return_counts=True), bits, rows)
        return [cls(*each, first, limit) for each in entries]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, name: int) -> dict[int, int]:
        """The tokens that share a sentence with a name, and how often."""
        part = slice(self.starts[name], self.starts[name + 1])
        return dict(zip(self.ids[part].tolist(), self.times[part].tolist(), strict=True))

    @property
    def nbytes(self) -> int:
        """How many bytes the counts take."""
        return self.starts.nbytes + self.ids.nbytes + self.times.nbytes

    @cached_property
    def _names(self) -> Integers:
        """The name of each entry."""
        # Not by np.diff, which takes as long as the rest of a lookup.
        return np.arange(len(self)).repeat(self.starts[1:] - self.starts[:-1])

    @cached_property
    def _by_token(self) -> tuple[Integers, Integers, Floats]:
        """All entries sorted by token: token, name, log(1 + times). Cached because every question needs it."""
        order = self.ids.argsort(kind="stable")
        return self.ids[order].astype(np.int32), self._names[order], _log1p(self.times)[order]

    @cached_property
    def mentions(self) -> Floats:
        """How often each name is mentioned `[count]`: its count with itself."""
        mentions = np.zeros(len(self), np.float32)
        itself = np.flatnonzero(self.ids == self._names + self.first)
        mentions[self._names[itself]] = self.times[itself]
        mentions.flags.writeable = False
        return mentions

    def pad(self, count: int) -> "Cooccurrence":
        """The same with at least `count` names; the new ones have no entries."""
        more = count - len(self)
        return self if more <= 0 else replace(self, starts=np.pad(self.starts, (0, more), mode="edge"))

    def add(self, other: "Cooccurrence", places: Sequence[int], count: int) -> "Cooccurrence":
        """The counts of both texts for at least `count` names; name j of the other is name places[j] here."""
        return self._combine("a + b", other, places, max(count, len(self)), 1)

    def subtract(self, part: "Cooccurrence", places: Sequence[int]) -> "Cooccurrence":
        """The counts without those of a part, whose name j is name places[j] here."""
        return self._combine("a - b", part, places, len(self), -1)

    def _combine(
        self, what: str, other: "Cooccurrence", places: Sequence[int], count: int, sign: int
    ) -> "Cooccurrence":
        if (self.first, self.limit) != (other.first, other.limit):
            ours, theirs = (f"{one.limit} names from id {one.first} on" for one in (self, other))
            raise OptionError.expected(
                what, f"co-occurrence of {ours}", theirs, "read both texts with one reader"
            )
        moved = np.asarray(places, np.int64)
        if len(moved) != len(other) or (len(moved) and not 0 <= moved.min() <= moved.max() < count):
            expected = f"a place below {count} for each of {len(other)} names"
            raise ShapeError.expected(what, expected, str(list(places)[:9]))
        ids = other.ids.astype(np.int64)
        names = np.flatnonzero((ids >= self.first) & (ids < self.first + self.limit))
        ids[names] = moved[ids[names] - self.first] + self.first
        bits = max(bits_for(self.ids), bits_for(ids))
        own = (self._names << bits) | self.ids
        keys = np.concatenate((own, (moved << bits).repeat(np.diff(other.starts)) | ids))
        times = np.concatenate((self.times.astype(np.int64), sign * other.times.astype(np.int64)))
        keys, times = sum_by_key(keys, times)
        if times.min(initial=0) < 0:
            raise OptionError.expected(
                what, "a part of what a was read from", "larger counts than those of a"
            )
        return Cooccurrence(*entries_of(keys, times, bits, count), self.first, self.limit)

    def to_bytes(self) -> bytes:
        """The counts as bytes, in the layout of `attar.memory.record`."""
        return record.write_cooccurrence(self)

    @classmethod
    def from_bytes(cls, buffer: record.Bytes, *, check: bool = True) -> "Cooccurrence":
        """The counts in a buffer, not copied; `check=False` checks sizes only."""
        return cls(*record.read_cooccurrence(buffer, check))

    def __reduce__(self) -> tuple[Any, ...]:
        return Cooccurrence.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        # Equal counts have equal types, and so equal bytes.
        return self.to_bytes() == other.to_bytes() if isinstance(other, Cooccurrence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # compared by its arrays

    def __repr__(self) -> str:
        return f"<Cooccurrence: {len(self)} names, {len(self.ids)} entries, {self.nbytes} bytes>"


def weigh_cooccurrences(
    counts: Sequence[Cooccurrence], ids: Integers, weights: Floats, question_starts: Integers
) -> Floats:
    """The sum of weight · log(1 + times) per name, for question q on counts[q]: `[Q, width, j]`.

    Question q has the token ids from question_starts[q] up to question_starts[q + 1], with weights `[t, j]`. The
    weights of a repeated token add up. Rows are padded with zeros.
    """
    questions = len(counts)
    if len(question_starts) != questions + 1:
        expected = f"[{questions + 1}], one question for each of {questions} memories"
        raise ShapeError.expected("question_starts", expected, str([len(question_starts)]))
    if ids.min(initial=0) < 0:
        raise OptionError.expected("ids", "token ids of at least 0", str(ids.min()))
    width = max(map(len, counts), default=0)
    sums = np.zeros((questions, width, weights.shape[1]), np.float32)
    if not width:
        return sums
    # Questions have few of the tokens: these are looked up in an index per memory, and then summed all at once.
    indexes = {id(each): each._by_token for each in counts}
    offsets = dict(zip(indexes, np.cumsum([0, *(len(each[0]) for each in indexes.values())]), strict=False))
    _, names, logs = (np.concatenate(parts) for parts in zip(*indexes.values(), strict=True))
    begin, stop = np.empty((2, len(ids)), np.int64)
    for each, (first, last) in zip(counts, pairwise(np.asarray(question_starts).tolist()), strict=True):
        tokens, offset = indexes[id(each)][0], offsets[id(each)]
        begin[first:last] = tokens.searchsorted(ids[first:last]) + offset
        stop[first:last] = tokens.searchsorted(ids[first:last], "right") + offset
    sizes = stop - begin
    stops = sizes.cumsum()
    entries = (begin - stops + sizes).repeat(sizes) + np.arange(stops[-1] if len(stops) else 0)
    question = np.arange(questions).repeat(np.diff(question_starts))
    cell, amount = (question * width).repeat(sizes) + names[entries], logs[entries]
    for column, each_weight in enumerate(weights.T):
        flat = np.bincount(cell, each_weight.repeat(sizes) * amount, questions * width)
        sums[:, :, column] = flat.reshape(questions, width)
    return sums


def _log1p(times: Integers) -> Floats:
    if times.itemsize == 1:
        return _LOGS.take(times, mode="clip")  # "clip" is faster, as it checks no bounds
    return np.log1p(times, dtype=np.float64).astype(np.float32)
