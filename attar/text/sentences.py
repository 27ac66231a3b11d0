"""Text into sentences, in one pass that looks ahead by one word at most."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from attar.text.english import ABBREVIATIONS, BEFORE_NAMES, STARTERS

# A sentence without an end (a table, a list) is cut at this many words: encoders look ahead within a sentence.
LONGEST_SENTENCE = 256

_BLANK_LINE = re.compile(r"\n\s*\n")
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
      (?:[^\W\d_]\.){2,}                                # U.S., e.g., J.R.R.
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

# How a chunk ends: inside a sentence; at its end; perhaps there, the next chunk decides; with "No."
_INSIDE = 0
_END = 1
_PERHAPS = 2
_NUMBER = 3
# Chunks that are remembered, and the longest of them: text repeats itself, and a look-up is cheap.
_REMEMBERED = 200_000
_LONGEST_REMEMBERED = 40


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


def cut_chunk(chunk: str) -> Chunk:
    """Cut the text between two spaces into words.

    >>> cut_chunk("Ann's,").words
    ('Ann', "'s", ',')
    """
    if not chunk.isascii():
        chunk = unicodedata.normalize("NFC", chunk)
    found: list[str] = []
    for word in _TOKEN.findall(chunk.translate(_QUOTES)):
        if word.isalnum() or word in _MARKS:
            found.append(word)
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


class _Chunks(dict[str, Chunk]):
    """Chunks by their text, each cut once."""

    def __missing__(self, text: str) -> Chunk:
        if len(self) > _REMEMBERED:
            self.clear()
        chunk = cut_chunk(text)
        if len(text) <= _LONGEST_REMEMBERED:
            self[text] = chunk
        return chunk


_chunks = _Chunks()


def _breaks_between(left: Chunk, right: Chunk) -> bool:
    """Whether a sentence ends between two chunks: not in `"Why?" said he`, but in `"Why?" He left`."""
    if left.ending in (_INSIDE, _PERHAPS):
        return left.ending == _PERHAPS and right.starter
    before_number = left.ending == _NUMBER and right.words and right.words[0][0].isdigit()
    return not right.starts_lower and not before_number


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first character of each sentence of a text, and the one after its last; a blank line ends a sentence.

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


def iterate_sentences(text: str) -> Iterator[list[str]]:
    """Yield the sentences of a text one by one as lists of words, capitals kept.

    >>> list(iterate_sentences('"Why?" said Mr. Darcy. He left.'))
    [['"', 'Why', '?', '"', 'said', 'Mr.', 'Darcy', '.'], ['He', 'left', '.']]
    """
    for start, stop in sentence_spans(text):
        chunks = map(_chunks.__getitem__, _CHUNK.findall(text, start, stop))
        words = [word for chunk in chunks for word in chunk.words]
        if words:
            yield words
