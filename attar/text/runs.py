"""The capital finder's search over many sentences at once: runs of capitalised words in coded text."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.text.coding import CodedText
from attar.text.entities import Kind, start_of_name
from attar.text.names import NameTable

_OPENER, _PARTICLE, _OF, _THE, _ALONE = map(int, (Kind.OPENER, Kind.PARTICLE, Kind.OF, Kind.THE, Kind.ALONE))
_MISTER, _TITLE, _INITIAL, _GENERIC = map(int, (Kind.MISTER, Kind.TITLE, Kind.INITIAL, Kind.GENERIC))
_COMMON, _SHOUTED, _PROPER = map(int, (Kind.COMMON, Kind.SHOUTED, Kind.PROPER))
# What makes a run a name: that it was one before, or is a part of one; nothing more; or the rules must tell.
_IF_KNOWN, _IF_PART, _SURE, _BY_RULE = range(4)


# A coded word's kind without the mark of small letters, and the mark.
_KIND, _SMALL = 15, 16
_OF_THE = bytes((_GENERIC, _OF + _SMALL, _THE + _SMALL))
_YES = np.ones(1, np.bool_)
_IN_RUNS = np.array([n & _KIND > _OPENER and n & _KIND not in (_THE, _ALONE, _MISTER) for n in range(32)])


def _verdict(first: int, single: bool, before: int, heading: bool) -> int:
    """Tell what makes a run a name, by the same rules as `start_of_name`, as far as one look at it goes."""
    opening, titled = before == _OPENER, before in (_TITLE, _MISTER)
    if first in (_PROPER, _INITIAL) or (first == _SHOUTED and not heading):
        return _SURE
    if first not in (_COMMON, _SHOUTED):
        return _BY_RULE if opening else _SURE
    if first == _COMMON and not opening and not heading and (titled or not single):
        return _SURE
    if single:
        return _IF_KNOWN if opening else _IF_PART
    return _BY_RULE


# By the first word's kind, whether it is the only one, the kind before it, and whether all is a heading.
_VERDICTS = np.array(
    [
        _verdict(first, bool(single), before, bool(heading))
        for first in range(16)
        for single in range(2)
        for before in range(16)
        for heading in range(2)
    ],
    np.uint8,
)


class Found(NamedTuple):
    """Names `[m]`: where each starts and stops among the words, and its number in the table, -1 if it has none."""

    starts: list[int]
    stops: list[int]
    entities: list[int]


class _Runs(NamedTuple):
    starts: NDArray[np.intp]
    stops: NDArray[np.intp]
    verdicts: NDArray[np.uint8]
    sentences: NDArray[np.intp]
    headings: NDArray[np.bool_]
    before: NDArray[np.uint8]  # the kind of the word before


def find_by_capitals(text: CodedText, table: NameTable) -> Found:
    """Find the names that `CapitalFinder.find` finds sentence by sentence, and learn them.

    >>> from attar.text.coding import CodeBook, code_text
    >>> book = CodeBook({"then": 1, "ann": 1, "lee": 1, "left": 1}, lambda word: 12 * (word in ("Ann", "Lee")))
    >>> find_by_capitals(next(code_text("Then Ann Lee left", lambda: book)), NameTable())
    Found(starts=[1], stops=[3], entities=[0])
    """
    starts: list[int] = []
    stops: list[int] = []
    entities: list[int] = []
    kinds = text.book.kinds_of(text.words)
    runs = _find_runs(kinds, text.stops)
    if runs is None:
        return Found(starts, stops, entities)
    # The words of all runs in one list: a slice of it costs less than one of the text.
    lengths = runs.stops - runs.starts
    ends = lengths.cumsum()
    places = np.repeat(runs.stops - ends, lengths)
    places += np.arange(len(places))
    codes = text.words[places].tolist()
    lowers = list(map(text.book.lowers.__getitem__, codes))
    words = list(map(text.book.words.__getitem__, codes))
    known = table.ids
    # New names of a sentence are learnt at its end: none of them helps to find another there.
    new: list[tuple[int, str, str]] = []
    reading = -1
    done = 0
    columns = runs.starts, runs.stops, runs.verdicts, runs.sentences, ends
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for n, (start, stop, verdict, sentence, end) in enumerate(rows):
        if new and sentence != reading:
            _learn(new, entities, table)
        key = lowers[done] if end - done == 1 else " ".join(lowers[done:end])
        entity = known.get(key)
        if entity is None:
            if verdict == _BY_RULE:
                start += start_of_name(
                    words[done:end],
                    (kinds[start:stop] & _KIND).tolist(),
                    int(runs.before[n]),
                    text.book.words[text.words[stop]] if stop < text.stops[sentence] else "",
                    bool(runs.headings[n]),
                    table,
                )
            elif verdict == _IF_KNOWN or (verdict == _IF_PART and table.meaning(key) is None):
                start = stop
            if start != stop:
                name = " ".join(words[end - (stop - start) : end])
                new.append((len(entities), name, key if verdict != _BY_RULE else name.lower()))
                reading, entity = sentence, -1
        if entity is not None:
            starts.append(start)
            stops.append(stop)
            entities.append(entity)
        done = end
    _learn(new, entities, table)
    return Found(starts, stops, entities)


def _learn(new: list[tuple[int, str, str]], entities: list[int], table: NameTable) -> None:
    for at, name, key in new:
        entity = table.learn_spelled(name, key)
        entities[at] = -1 if entity is None else entity
    new.clear()


def _find_runs(kinds: NDArray[np.uint8], sentence_stops: NDArray[np.intp]) -> _Runs | None:
    """Find the runs as the finder does, and what a run's first word says about it."""
    # After University "of the" is as good as a particle; "the" is nothing to a name anywhere else.
    found = (written := kinds.tobytes()).find(_OF_THE)
    while found >= 0:
        kinds[found + 2] = _PARTICLE + _SMALL
        found = written.find(_OF_THE, found + 3)
    # Whatever can be in a run: capitalised words, and what may stand between two of them.
    at = _IN_RUNS[kinds].nonzero()[0]
    kind = kinds[at] & _KIND
    candidates = (kind >= _INITIAL).nonzero()[0]
    if not len(candidates):
        return None
    sentence = sentence_stops.searchsorted(at, "right")
    sentence_starts = np.zeros_like(sentence_stops)
    sentence_starts[1:] = sentence_stops[:-1]
    # A heading has no word in small letters, and those have the greatest numbers.
    heading = (np.maximum.reduceat(kinds, sentence_starts) <= _KIND)[sentence]
    # A group: words of one sentence without a gap; "of" only after University and its like.
    begins = (kind == _COMMON) | (kind == _SHOUTED)
    begins &= heading
    begins[1:] |= at[1:] - at[:-1] != 1
    begins[1:] |= sentence[1:] != sentence[:-1]
    begins[1:] |= (kind[1:] == _OF) & (kind[:-1] != _GENERIC)
    group = begins.cumsum()
    # A run: from a group's first candidate to its last capitalised word.
    groups = group[candidates]
    firsts = candidates[np.concatenate((_YES, groups[1:] != groups[:-1]))]
    last_of = np.zeros(int(group[-1]) + 1, np.intp)
    parts = (kind >= _TITLE).nonzero()[0]
    np.maximum.at(last_of, group[parts], at[parts])
    starts, stops = at[firsts], last_of[group[firsts]] + 1
    wanted = ((stops - starts > 1) | (kind[firsts] >= _COMMON)).nonzero()[0]
    starts, stops, firsts = starts[wanted], stops[wanted], firsts[wanted]
    sentence, heading = sentence[firsts], heading[firsts]
    before = kinds[starts - 1] & _KIND
    before[starts == sentence_starts[sentence]] = _OPENER
    looks = kind[firsts].astype(np.intp) << 1 | (stops - starts == 1)
    verdicts = _VERDICTS[(looks << 4 | before) << 1 | heading]
    return _Runs(starts, stops, verdicts, sentence, heading, before)
