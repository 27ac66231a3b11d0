"""Finding a quote in a text: word for word, or with a few words changed.

Words are compared without case, accents of typography and punctuation: `“It’s 1,610”` and `"It's 1610"` are the same.
A quote is found in linear time. So are, for a changed one, the windows of the text that share enough words with it;
only the best few of them are aligned with it word by word.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.results import Difference
from attar.text.kinds import WORD, form_of

# One changed word is forgiven in this many.
WORDS_PER_CHANGE = 4
# The most words of a quote: an alignment takes time with the square of them.
MOST_WORDS = 1_000
# The most windows of one text that are aligned.
_WINDOWS = 8


class Word(NamedTuple):
    """A word as it is compared, and its characters."""

    form: str
    start: int
    end: int


class Match(NamedTuple):
    """The characters of a text that say a quote, and the differences in words."""

    start: int
    end: int
    changes: int
    differences: list[Difference]


def words_of(text: str) -> list[Word]:
    """The words of a text.

    >>> [word.form for word in words_of("“It’s” 1,610 Pounds—or 2.50.")]
    ['its', '1610', 'pounds', 'or', '2.50']
    """
    return [Word(form_of(found[0]), *found.span()) for found in WORD.finditer(text)]


def find_quote(quote: Sequence[Word], quoted: str, text: str, most: int = 5) -> list[Match]:
    """The places of a text that say a quote, at most `most`: those word for word, or else the nearest ones.

    >>> found = find_quote(words_of("Ann left Bath in May."), "Ann left Bath in May.", "Then Ann left Bath in June!")
    >>> [(match.start, match.end, match.differences) for match in found]
    [(5, 26, [Difference(quote='May', text='June')])]
    """
    words = words_of(text)
    exact = _exact_places([word.form for word in quote], [word.form for word in words], most)
    if exact:
        return [Match(words[at].start, words[at + len(quote) - 1].end, 0, []) for at in exact]
    allowed = len(quote) // WORDS_PER_CHANGE
    if not allowed:
        return []
    matches: list[Match] = []
    for start, end in _windows(quote, words, allowed):
        match = _aligned(quote, quoted, words[start:end], text, allowed)
        if match is not None and all(
            match.end <= other.start or other.end <= match.start for other in matches
        ):
            matches.append(match)
    matches.sort(key=lambda match: (match.changes, match.start))
    return [match for match in matches if match.changes == matches[0].changes][:most]


def _exact_places(quote: Sequence[str], words: Sequence[str], most: int) -> list[int]:
    """The numbers of the words at which the quote begins; `str.find` takes linear time."""
    # A form has no space, so that matches begin and end with words.
    line, wanted = f" {' '.join(words)} ", f" {' '.join(quote)} "
    places: list[int] = []
    at, before, counted = line.find(wanted), 0, 0
    while at >= 0 and len(places) < most:
        counted += line.count(" ", before, at)
        before = at
        places.append(counted)
        at = line.find(wanted, at + len(wanted) - 1)
    return places


def _windows(quote: Sequence[Word], words: Sequence[Word], allowed: int) -> list[tuple[int, int]]:
    """The windows of words that share the most with a quote, with room on both sides; none twice."""
    size, wanted = len(quote), Counter(word.form for word in quote)
    shared = np.zeros(len(words) + 1, np.int32)
    inside: Counter[str] = Counter()
    now = 0
    for at, word in enumerate(words):
        form = word.form
        if form in wanted:
            inside[form] += 1
            now += inside[form] <= wanted[form]
        if at >= size:
            gone = words[at - size].form
            if gone in wanted:
                now -= inside[gone] <= wanted[gone]
                inside[gone] -= 1
        shared[at + 1] = now
    # An inserted word moves one out of a window: half of the changes may be such.
    ends = np.flatnonzero(shared >= size - allowed)
    ends = ends[np.argsort(-shared[ends], kind="stable")]
    windows: list[tuple[int, int]] = []
    free = np.ones(len(words) + 1, np.bool_)
    for end in ends.tolist():
        if free[end]:
            free[max(0, end - size) : end + size] = False
            windows.append((max(0, end - size - allowed), min(len(words), end + allowed)))
            if len(windows) == _WINDOWS:
                break
    return windows


def _aligned(
    quote: Sequence[Word], quoted: str, words: Sequence[Word], text: str, allowed: int
) -> Match | None:
    """The part of a window with the fewest words changed, inserted or left out; None if these are too many."""
    ids = {word.form: number for number, word in enumerate(words)}
    of_window = np.array([ids[word.form] for word in words])
    of_quote = [ids.get(word.form, -1) for word in quote]
    steps = np.arange(len(words) + 1)
    # costs[i, j]: of the first i words of the quote, ending after the first j of the window; it may begin anywhere.
    costs = np.zeros((len(quote) + 1, len(words) + 1), np.int32)
    for row, wanted in enumerate(of_quote, 1):
        before = costs[row - 1]
        best = before + 1
        best[1:] = np.minimum(best[1:], before[:-1] + (of_window != wanted))
        # The least over all that come before, each skipped word costing one.
        costs[row] = np.minimum.accumulate(best - steps) + steps
    end = int(costs[-1].argmin())
    # A changed last word is one that stands for another, rather than one left out.
    if end < len(words) and costs[-1, end + 1] == costs[-1, end] and of_window[end - 1] != of_quote[-1]:
        end += 1
    if costs[-1, end] > allowed:
        return None
    pairs = _pairs(costs, of_window, of_quote, end)
    first = min((column for _, column in pairs if column is not None), default=None)
    if first is None:
        return None
    differences = _differences(pairs, quote, quoted, words, text)
    return Match(words[first].start, words[end - 1].end, int(costs[-1, end]), differences)


def _pairs(
    costs: NDArray[np.int32], of_window: NDArray[np.int64], of_quote: Sequence[int], end: int
) -> list[tuple[int | None, int | None]]:
    """The words of the quote and of the window that stand for each other; None: one that has no counterpart."""
    row, column = len(of_quote), end
    pairs: list[tuple[int | None, int | None]] = []
    while row:
        same = column and of_window[column - 1] == of_quote[row - 1]
        if column and costs[row, column] == costs[row - 1, column - 1] + (not same):
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif costs[row, column] == costs[row - 1, column] + 1:
            row -= 1
            pairs.append((row, None))
        else:
            column -= 1
            pairs.append((None, column))
    return pairs[::-1]


def _differences(
    pairs: Sequence[tuple[int | None, int | None]],
    quote: Sequence[Word],
    quoted: str,
    words: Sequence[Word],
    text: str,
) -> list[Difference]:
    """What differs, neighbours together, as both wrote it."""
    differences: list[Difference] = []
    ours: list[Word] = []
    theirs: list[Word] = []
    for row, column in [*pairs, (None, None)]:
        if row is not None and column is not None and quote[row].form == words[column].form:
            row = column = None
        elif row is not None or column is not None:
            ours += [] if row is None else [quote[row]]
            theirs += [] if column is None else [words[column]]
            continue
        if ours or theirs:
            differences.append(Difference(_between(quoted, ours), _between(text, theirs)))
            ours, theirs = [], []
    return differences


def _between(text: str, words: Sequence[Word]) -> str:
    return text[words[0].start : words[-1].end] if words else ""
