"""Text into sentences of words, in one pass that looks ahead by one word at most."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from attar.text.english import ABBREVIATIONS, BEFORE_NAMES, STARTERS

PLACEHOLDER = "@placeholder"
# A sentence without an end (a table, a list) is cut at this many words: encoders look ahead within a sentence.
LONGEST_SENTENCE = 256

_BLANK_LINE = re.compile(r"\n\s*\n")
_SPACE = re.compile(r"\s")
# Bounded: NFC of a run of combining marks is quadratic.
_CHUNK = re.compile(r"\S{1,256}")
_QUOTES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "`": "'", "—": "--"}
)
_ENDS = frozenset((".", "!", "?", "..."))
_MARKS = frozenset(",.;:!?\"'()[]")
_CLOSERS = frozenset(('"', "'", ")", "]", "}"))
# Letters and digits, apostrophes inside included, but for the endings that are words of their own.
_WORD = r"[^\W_]+(?:'(?!(?i:s|ll|d|ve|re|m)(?![^\W_]))[^\W_]+)*"
_TOKEN = re.compile(
    r"""
      @placeholder(?!\w) | @entity\d+
    | (?:[^\W\d_]\.){2,}                                # U.S., e.g., J.R.R.
    | [^\W\d_]+\.(?![^\W_]|\.)                           # Mr. and St., if the lists say so; else split again
    | \d+(?:[.,:]\d+)+                                  # 1,000  3.5  10:30
    | WORD(?:-WORD)*                                    # don't  O'Brien  Jean-Luc
    | '(?i:s|ll|d|ve|re|m)(?![^\W_])                    # Darcy 's, you 'll
    | \.{2,} | …
    | -{2,}
    | ''
    | [^\w\s]
    """.replace("WORD", _WORD),
    re.VERBOSE,
)
_ALIKE = {"…": "...", "''": '"'}

# How a chunk ends: inside a sentence, at its end, perhaps there (the next chunk decides), or with "No."
_INSIDE, _END, _PERHAPS, _NUMBER = range(4)
# Characters split at a time, so that a text without blank lines needs no more working memory than one with.
_BLOCK = 100_000
_T = TypeVar("_T")


class Chunk(NamedTuple):
    """The text between two spaces as words, with what decides whether a sentence ends before or after it."""

    words: tuple[str, ...]
    ending: int
    starts_lower: bool  # its first letter is lower-case
    starter: bool  # its first word often begins a sentence


def _split_word(word: str) -> Iterator[str]:
    """Keep a hyphen between capitals (Jean-Luc), and a full stop that abbreviates; split the others."""
    if word.endswith(".") and len(word) > 1 and word.count(".") == 1:
        initial = len(word) == 2 and word[0].isupper() and word != "I."
        if initial or word.lower() in BEFORE_NAMES or word.lower() in ABBREVIATIONS:
            yield word
        else:
            yield from (word[:-1], ".")
    elif "-" in word and word[0] != "-" and not all(part[0].isupper() for part in word.split("-")):
        yield from (piece for piece in re.split("(-)", word) if piece)
    elif word.startswith("..") or word in _ALIKE:
        yield _ALIKE.get(word, "...")
    elif word.startswith("--"):
        yield "--"
    elif unicodedata.category(word[0])[0] != "C":
        yield word
    elif unicodedata.category(word[0]) == "Cs":
        yield "\ufffd"  # half of a surrogate pair: no encoder takes it


class ChunkCache(dict[str, _T], Generic[_T]):
    """Values by chunk, computed once per chunk: text repeats itself, and a look-up is cheap."""

    def __init__(self, compute: Callable[[str], _T]) -> None:
        self._compute = compute

    def __missing__(self, chunk: str) -> _T:
        if len(self) > 200_000:
            self.clear()
        value = self._compute(chunk)
        if len(chunk) <= 40:
            self[chunk] = value
        return value


def cut_chunk(chunk: str, *, marked: bool = False) -> Chunk:
    """Cut the text between two spaces into words; in marked text `@entityN` and `@placeholder` are kept.

    >>> cut_chunk("Ann's,").words, cut_chunk("@entity7's").words, cut_chunk("@entity7's", marked=True).words
    (('Ann', "'s", ','), ('entity7', "'s"), ('@entity7', "'s"))
    """
    if not chunk.isascii():
        chunk = unicodedata.normalize("NFC", chunk)
    found: list[str] = []
    for word in _TOKEN.findall(chunk.translate(_QUOTES)):
        if word.isalnum() or word in _MARKS:
            found.append(word)
        elif word[0] == "@" and len(word) > 1:
            found.append(word if marked else word[1:])
        else:
            found += _split_word(word)
    words = tuple(found)
    last = words[-1] if words else ""
    if last in _CLOSERS:
        last = next((word for word in reversed(words) if word not in _CLOSERS), "")
    ending = _INSIDE
    if last in _ENDS:
        ending = _NUMBER if words[-2:] == ("No", ".") else _END
    elif len(last) > 1 and last[-1] == "." and last.lower() not in BEFORE_NAMES:
        ending = _PERHAPS
    letter = next((word for word in words if word[0].isalpha()), "")
    return Chunk(words, ending, letter[:1].islower(), letter in STARTERS)


_chunks = ChunkCache(cut_chunk)
_marked_chunks = ChunkCache(lambda chunk: cut_chunk(chunk, marked=True))


def _breaks_between(left: Chunk, right: Chunk) -> bool:
    """Whether a sentence ends between two chunks: not in `"Why?" said he`, but in `"Why?" He left`."""
    if left.ending in (_INSIDE, _PERHAPS):
        return left.ending == _PERHAPS and right.starter
    before_number = left.ending == _NUMBER and right.words and right.words[0][0].isdigit()
    return not right.starts_lower and not before_number


def iterate_sentences(text: str, *, marked: bool = False) -> Iterator[list[str]]:
    """Yield the sentences of a text one by one as lists of words, capitals kept; a blank line ends a sentence.

    In marked text `@entityN` and `@placeholder` stand for names and blanks. In any other text they are words
    without the @, so that a user's text is never taken for a set's marks.

    >>> list(iterate_sentences('"Why?" said Mr. Darcy. He left.'))
    [['"', 'Why', '?', '"', 'said', 'Mr.', 'Darcy', '.'], ['He', 'left', '.']]
    """
    cache = _marked_chunks if marked else _chunks
    start = 0
    while start < len(text):
        found = _BLANK_LINE.search(text, start)
        stop, following = found.span() if found else (len(text), len(text))
        yield from _sentences_of_paragraph(map(cache.__getitem__, _split(text, start, stop)))
        start = following


def _split(text: str, start: int, stop: int) -> Iterator[str]:
    """Split part of a text at spaces, holding a block's chunks at a time."""
    while start < stop:
        space = _SPACE.search(text, start + _BLOCK, stop)
        end = space.start() if space else stop
        yield from text[start:end].split()
        start = end


def _sentences_of_paragraph(chunks: Iterator[Chunk]) -> Iterator[list[str]]:
    words: list[str] = []
    left = None
    for right in chunks:
        if left is not None and left.ending and _breaks_between(left, right) and words:
            yield words
            words = []
        words += right.words
        while len(words) > LONGEST_SENTENCE:
            yield words[:LONGEST_SENTENCE]
            words = words[LONGEST_SENTENCE:]
        left = right
    if words:
        yield words


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first character of each sentence of a text, and the one after its last.

    >>> list(sentence_spans('"Why?" said Mr. Darcy. He left. '))
    [(0, 22), (23, 31)]
    """
    start = 0
    while start < len(text):
        found = _BLANK_LINE.search(text, start)
        stop, following = found.span() if found else (len(text), len(text))
        first, last, words, left = -1, start, 0, None
        for match in _CHUNK.finditer(text, start, stop):
            right = _chunks[match[0]]
            ends = left is not None and left.ending and _breaks_between(left, right)
            if words and (ends or words + len(right.words) > LONGEST_SENTENCE):
                yield first, last
                first, words = -1, 0
            first, last, left = match.start() if first < 0 else first, match.end(), right
            words += len(right.words)
        if first >= 0:
            yield first, last
        start = following


def ends_sentence(text: str, following: str = "") -> bool:
    """Whether a sentence ends where a text ends, so that what follows can be read on its own.

    >>> ends_sentence("He left. "), ends_sentence("He saw Mr. "), ends_sentence("He left. ", "and came back.")
    (True, False, False)
    """
    if not text.strip() or _BLANK_LINE.search(text[len(text.rstrip()) :]):
        return True
    left, right = _chunks[text.split()[-1]], following.split(None, 1)[:1]
    if not right:
        return left.ending in (_END, _NUMBER)
    separated = text[-1].isspace() or following[0].isspace()
    return separated and _breaks_between(left, _chunks[right[0]])
