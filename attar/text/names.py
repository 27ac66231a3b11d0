"""Names in English text: found by capitals or by spaCy, learned by a table, marked as `@entityN`."""

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol

from attar.errors import MissingError
from attar.text.aliases import NUMERAL
from attar.text.english import (
    ALONE,
    ARTICLES,
    COMMON_ENDINGS,
    FUNCTION_WORDS,
    MISTERS,
    NOT_PEOPLE,
    PARTICLES,
    PLACE_PREFIXES,
    SUFFIXES,
    TITLES,
)
from attar.text.name_table import NameTable
from attar.text.vocabulary import OPENERS, Vocabulary


class NameFinder(Protocol):
    """Finds the names in one sentence, given the names known so far."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Return the names' positions as (start, stop), in order."""
        ...


# What a word can be to a name. Plain integers: an Enum's comparisons would cost more than the rest of the search.
_PLAIN = 0  # a lower-case word, a number, a comma
_OPENER = 1  # a mark after which a capital may mean nothing
_PARTICLE = 2  # van, de, &: inside a name only
_OF = 3  # inside a name after University, Battle and the like
_THE = 4  # inside a name after that "of"
_ALONE = 5  # capitalised and never a name: I, The, May, Monday
_MISTER = 6  # Mr., Dr.: before a name, never in it
_TITLE = 7  # King, Dame: before a name, or inside it (Stephen King)
_TAIL = 8  # Jr., VIII: never a name's first word
_INITIAL = 9  # J.: never a name by itself
_GENERIC = 10  # University, North: neither
_COMMON = 11  # capitalised here, usually lower-case
_UPPER = 12  # US: a name, unless everything is in capitals
_UNSEEN = 13  # capitalised, and never counted
_PROPER = 14  # usually capitalised

# Generic words that begin a name even at the start of a sentence.
_NAME_STARTS = PLACE_PREFIXES | ARTICLES


class _Kinds(dict[str, int]):
    """The kind of every word, decided once by the vocabulary's counts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._words = frozenset(vocabulary.words)

    def __missing__(self, word: str) -> int:
        if len(self) > 300_000:
            self.clear()
        self[word] = kind = self._decide(word)
        return kind

    def _decide(self, word: str) -> int:
        """Decide by the word's letters, the lists and its counts, the surest first."""
        lower = word.lower()
        if word in OPENERS:
            return _OPENER
        if word in PARTICLES:
            return _PARTICLE
        if word in ("of", "the"):
            return _OF if word == "of" else _THE
        numeral = word[0] in "XVI" and word != "I" and NUMERAL.fullmatch(word)
        if numeral or (word != lower and lower in SUFFIXES):
            return _TAIL
        if not (word[0].isupper() or (word[1:2] == "'" and word[2:3].isupper())):
            return _PLAIN
        return self._decide_capitalised(word, lower)

    def _decide_capitalised(self, word: str, lower: str) -> int:
        if word == "US":
            return _UPPER
        share = self._vocabulary.capital_share(lower)
        emphasis = len(word) > 1 and word.isupper() and share is not None and share < 0.5
        if emphasis or lower in FUNCTION_WORDS or lower in ALONE:
            return _ALONE
        if len(word.rstrip(".")) == 1:
            return _INITIAL
        if lower.rstrip(".") in MISTERS:
            return _MISTER
        if lower.rstrip(".") in TITLES:
            return _TITLE
        if lower in NOT_PEOPLE or lower in ARTICLES:
            return _GENERIC
        # A word of the vocabulary that was never counted inside a sentence begins sentences: Nobody.
        if share is None:
            return _COMMON if lower in self._words else _UNSEEN
        return _PROPER if share >= 0.5 else _COMMON


class CapitalFinder:
    """Finds English names by capitals; at the start of a sentence, counts and known names decide.

    >>> vocabulary = Vocabulary((), {"when": (0, 9), "darcy": (9, 0)})
    >>> CapitalFinder(vocabulary).find("When Mr. Darcy met Jane Bennet in May".split(), NameTable())
    [(2, 3), (4, 6)]
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._kinds = _Kinds(vocabulary)

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Return the names' positions as (start, stop), in order."""
        kinds = list(map(self._kinds.__getitem__, sentence))
        if max(kinds, default=_PLAIN) < _INITIAL:
            return []
        heading = not any(map(str.islower, sentence))
        names = []
        stop = 0
        for at in [at for at, kind in enumerate(kinds) if kind >= _INITIAL]:
            if at >= stop:
                stop = _end_of_name(kinds, at, heading)
                start = _start_of_name(sentence, kinds, at, stop, heading, known)
                if start < stop:
                    names.append((start, stop))
        return names


def _end_of_name(kinds: list[int], start: int, heading: bool) -> int:
    """Follow capitalised words, across particles between two of them."""
    stop = start + 1
    while stop < len(kinds):
        after = stop
        if kinds[after] == _OF and kinds[after - 1] == _GENERIC:
            after += 1 + (kinds[after + 1 : after + 2] == [_THE])
        while after < len(kinds) and kinds[after] == _PARTICLE:
            after += 1
        if after == len(kinds) or kinds[after] < _TITLE or (heading and kinds[after] in (_COMMON, _UPPER)):
            break
        stop = after + 1
    return stop


def _start_of_name(
    sentence: Sequence[str], kinds: Sequence[int], start: int, stop: int, heading: bool, known: NameTable
) -> int:
    """Skip the first words whose capital has another reason; `stop` if no name is left."""
    before = kinds[start - 1] if start else _OPENER
    opening = before == _OPENER
    titled = before in (_TITLE, _MISTER)
    for at in range(start, stop):
        first, single = kinds[at], stop - at == 1
        if single and first < _COMMON:
            return stop
        key = " ".join(sentence[at:stop]).lower()
        # A common word that begins a sentence must have been a name by itself; part of a name is not enough.
        if key in known.ids or (not (opening and first == _COMMON) and known.id_of(key) is not None):
            return at
        if first == _COMMON:
            sure = (titled or not single) and not opening and not heading
        elif first == _UPPER:
            sure = not heading
        elif first == _UNSEEN:
            exclamation = single and stop < len(sentence) and sentence[stop] == "!"
            common = heading or exclamation or sentence[at].lower().endswith(COMMON_ENDINGS)
            sure = not opening or not common
        elif first == _GENERIC:
            sure = not opening or kinds[at + 1] in (_OF, _GENERIC) or sentence[at].lower() in _NAME_STARTS
        else:
            sure = first not in (_OF, _THE, _PARTICLE, _TITLE, _TAIL)
        if sure:
            return at
        opening = False  # the next word is inside the sentence
    return stop


class SpacyFinder:
    """Finds names with a spaCy pipeline, one sentence at a time; spaCy is an optional package."""

    _LABELS = frozenset(("PERSON", "ORG", "GPE", "LOC", "FAC", "PRODUCT", "WORK_OF_ART", "EVENT"))

    def __init__(self, model: str = "en_core_web_sm") -> None:
        try:
            spacy: Any = import_module("spacy")
        except ImportError as fault:
            raise MissingError.expected(
                "names by spaCy", "the package spacy", "none", "pip install spacy"
            ) from fault
        try:
            self._pipeline: Any = spacy.load(model)
        except OSError as fault:
            remedy = f"python -m spacy download {model}"
            raise MissingError.expected("names by spaCy", f"the model {model}", "none", remedy) from fault
        self._document: Any = spacy.tokens.Doc

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Return the names' positions as (start, stop), in order."""
        document = self._pipeline(self._document(self._pipeline.vocab, words=list(sentence)))
        return [(int(name.start), int(name.end)) for name in document.ents if name.label_ in self._LABELS]


def learn_names(sentence: Sequence[str], table: NameTable, finder: NameFinder) -> list[tuple[int, int, int]]:
    """Find a sentence's names, let the table learn them, and return each as (start, stop, id).

    Names that a full table does not take are left out: they stay words.

    >>> learn_names(["Then", "Ann", "Lee", "met", "Bob"], NameTable(), CapitalFinder(Vocabulary(())))
    [(1, 3, 0), (4, 5, 1)]
    """
    return [
        (start, stop, entity)
        for start, stop in finder.find(sentence, table)
        if (entity := table.learn(sentence[start:stop], sentence[start - 1] if start else "")) is not None
    ]


def start_of_titles(sentence: Sequence[str], start: int, first: int = 0) -> int:
    """Return where the titles before a name begin, `start` if there are none; `first` is the first word to look at.

    >>> start_of_titles(["Then", "Prof.", "Dr.", "Okafor", "came"], 3)
    1
    """
    while start > first and is_title(sentence[start - 1]):
        start -= 1
    return start


def is_title(word: str) -> bool:
    """Whether a word is a title as it stands before names: Dr., Captain."""
    return word[:1].isupper() and word.lower().rstrip(".") in TITLES


def mark_names(
    sentences: Iterable[Sequence[str]], table: NameTable, finder: NameFinder
) -> Iterator[list[str]]:
    """Replace every name with `@entityN`; the table learns the names, N being a name's id in it.

    >>> finder = CapitalFinder(Vocabulary(()))
    >>> list(mark_names([["Then", "Ann", "Lee", "met", "Bob"], ["Ann", "left"]], NameTable(), finder))
    [['Then', '@entity0', 'met', '@entity1'], ['@entity0', 'left']]
    """
    for sentence in sentences:
        marked: list[str] = []
        done = 0
        for start, stop, entity in learn_names(sentence, table, finder):
            marked += sentence[done:start]
            marked.append(f"@entity{entity}")
            done = stop
        marked += sentence[done:]
        yield marked
