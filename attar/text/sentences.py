"""Text into sentences, in one pass that looks ahead by a few lines at most, and the passages around them.

A line of a form or list is a sentence of its own; the lines of wrapped prose are joined. A passage is long enough to
be understood alone, by a person or a language model.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from attar.text.english import ABBREVIATIONS, BEFORE_NAMES, STARTERS, word_set

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

# A line of a list; "Total due:" or "Invoice date: 3 May", in columns too; a line of dots leads to a price.
_ITEM = re.compile(r"\s*(?:[-–—•*▪◦‣·+]|\(?\d{1,3}[.)]|\(?(?:[A-Z]\)|[a-z][.)]))\s+\S")
_MARKER = re.compile(r"\(?(?:\d{1,3}[.)]|[A-Z]\)|[a-z][.)])")
_LABEL = re.compile(r"\s*[^\W_][^\s:]{0,30}(?:[^\S\n][^\s:]{1,30}){0,4}:(?=\s|\Z)")
_ADDRESS = re.compile(r"(?:[^\s@]{1,64}@[^\s@]+\.[^\s@]+|(?:https?://|www\.)\S+)\s*(?:\n|\Z)")
_COLUMNS = re.compile(r"[^\S\n]{3,}|[^\S\n]*\t[^\S\n]*")
_LEADERS = re.compile(r"[.…·_]{4,}")
# A line that ends with one of these goes on.
_OPEN_WORDS = word_set(
    "the a an of to in on at by for from with and or but nor is are was were be been has have had my your our his her "
    "their its as than that which who whose into onto upon over under about not will would shall should can could may "
    "might must if when because between through"
)
_OPEN_MARKS = (",", "-", "–", "—", "(", "[", "&", "/")
# Lines of prose are about this long at least; so many lines are looked at to tell; a line that has room for the next
# word, compared with the longest of them, was ended on purpose. Characters of printed fonts differ in width.
_PROSE_LINE, _LINES_AHEAD, _FULL = 45, 4, 0.8
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\Z")

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
    if last in _ENDS and not _LEADERS.fullmatch(chunk):
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


_INDENT = re.compile(r"\s*")


def _line_after(text: str, start: int, stop: int) -> tuple[int, int]:
    """The line that begins at `start`, up to its end or `stop`."""
    end = text.find("\n", start, stop)
    return start, stop if end < 0 else end


def _is_open(line_end: str) -> bool:
    """Whether a line goes on: it ends with a comma, or with a word that nothing ends with."""
    words = line_end.split()
    return bool(words) and (
        words[-1].endswith(_OPEN_MARKS) or words[-1].lower().strip("\"'‘’“”(") in _OPEN_WORDS
    )


def _ends_line(text: str, newline: int, stop: int, is_inside: bool) -> bool:
    """Whether a sentence ends with a line, if its last chunk does not say so.

    `newline` is its place, `stop` the end of the paragraph; `is_inside`: the line begins inside the sentence. Only
    this line and the next few decide, so that a text which begins with this line is cut in the same way.
    """
    start = _INDENT.match(text, text.rfind("\n", 0, newline) + 1, newline).end()  # type: ignore[union-attr]
    following, end = _line_after(text, newline + 1, stop)
    while following < end and text[following].isspace():
        following += 1
    if _ITEM.match(text, following, end):
        return True
    has_label = _LABEL.match(text, following, end) is not None
    is_short = newline - start < _PROSE_LINE
    if _ADDRESS.match(text, following, end):
        return True
    if text[following].islower():
        return has_label and is_short and _LABEL.match(text, start, newline) is not None
    if has_label and is_short:
        return True
    if _is_open(text[max(start, newline - 40) : newline]):
        return False
    longest, line, is_prose = max(newline - start, end - following), (following, end), is_inside
    for _ in range(_LINES_AHEAD):
        is_prose = is_prose or _is_open(text[max(line[0], line[1] - 40) : line[1]])
        if line[1] >= stop:
            break
        line = _line_after(text, line[1] + 1, stop)
        longest = max(longest, line[1] - line[0])
        first = text[line[0] : line[0] + 80].lstrip()
        wraps = first[:1].islower() and not (_LABEL.match(text, *line) or _ADDRESS.match(first))
        is_prose = is_prose or wraps
    if not (is_short or has_label):
        is_prose = is_prose or _SENTENCE_END.search(text[line[1] - 8 : line[1]].rstrip()) is not None
    word = next(iter(text[following : following + 40].split(None, 1)), "")
    return not is_prose or newline - start + 1 + len(word) < _FULL * longest


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
        newline = text.find("\n", start, stop)
        is_inside = is_marker = False
        for match in _CHUNK.finditer(text, start, stop):
            right = _chunks[match[0]]
            place = match.start()
            ends = left is not None and left.ending and not is_marker and _breaks_between(left, right)
            is_marker = (left is None or 0 <= newline < place) and _MARKER.fullmatch(match[0]) is not None
            if 0 <= newline < place:
                if left is not None and not ends:
                    ends = _ends_line(text, newline, stop, is_inside)
                    is_inside = not ends
                else:
                    is_inside = False
                newline = text.find("\n", place, stop)
            elif place - last > 1 and left is not None and not ends:
                columns = _COLUMNS.match(text, last, place)
                ends = columns is not None and _LABEL.match(text, place, stop) is not None
            if words and (ends or words + len(right.words) > LONGEST_SENTENCE):
                yield first, last
                first, words = -1, 0
            first, last, left = place if first < 0 else first, match.end(), right
            words += len(right.words)
        if first >= 0:
            yield first, last
        start = following


def begins_anew(text: str, start: int) -> bool:
    r"""Whether a text that begins with a sentence of this text, at `start`, is cut into the same sentences.

    It is, if the sentence begins a line, or if its paragraph has no line after it.

    >>> begins_anew("He left. She stayed.", 9), begins_anew("He left. She\nstayed.", 9)
    (True, False)
    """
    before = text[text.rfind("\n", 0, start) + 1 : start]
    if not before or before.isspace():
        return True
    newline = text.find("\n", start)
    return newline < 0 or _BLANK_LINE.match(text, newline) is not None


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


# The most characters of a passage: some 250 tokens of a language model.
LONGEST_PASSAGE = 1_200
# Where a passage may begin or end, the best first: between paragraphs, lines, sentences.
_BREAKS = [re.compile(pattern) for pattern in (r"\n\s*\n\s*", r"\n\s*", r"(?<=[.!?])\s+")]


def passage_around(text: str, start: int, end: int, longest: int = LONGEST_PASSAGE) -> tuple[int, int]:
    r"""The characters of as many whole paragraphs around a sentence as fit, its own first.

    If its own is too long, whole lines; or else sentences; a sentence of more than `longest` characters is alone.

    >>> text = "A title\n\nAnn came. Bob left. He took the bus.\n\nNobody saw him again."
    >>> begin, stop = passage_around(text, 19, 28, longest=40)
    >>> text[begin:stop]
    'Ann came. Bob left. He took the bus.'
    """
    # What is further away cannot be a part of it; a break may stand outside.
    low, high = max(start - longest - 2, 0), min(end + longest + 2, len(text))
    for pattern in _BREAKS:
        breaks = [found.span() for found in pattern.finditer(text, low, high)]
        begins = [stop for _, stop in breaks if stop <= start]
        stops = [begin for begin, _ in breaks if begin >= end]
        if low == 0:
            begins.insert(0, low + len(text[:start]) - len(text[:start].lstrip()))
        if high == len(text):
            stops.append(end + len(text[end:].rstrip()))
        if begins and stops and stops[0] - begins[-1] <= longest:
            return _grown(begins, stops, longest)
    return start, end


def _grown(begins: list[int], stops: list[int], longest: int) -> tuple[int, int]:
    """The last beginning and the first end, moved apart by turns while there is room."""
    begin, stop = begins.pop(), stops.pop(0)
    while True:
        grew = False
        if stops and stops[0] - begin <= longest:
            stop, grew = stops.pop(0), True
        if begins and stop - begins[-1] <= longest:
            begin, grew = begins.pop(), True
        if not grew:
            return begin, stop


def passages_around(text: str, sentences: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The passages around sentences, in the order of those; passages that overlap are one.

    >>> passages_around("Ann came. Bob left.", [(10, 19), (0, 9)])
    [(0, 19)]
    """
    passages: list[tuple[int, int]] = []
    for start, end in sentences:
        begin, stop = passage_around(text, start, end)
        for at, (other_begin, other_stop) in enumerate(passages):
            if begin < other_stop and other_begin < stop:
                passages[at] = min(begin, other_begin), max(stop, other_stop)
                break
        else:
            passages.append((begin, stop))
    return passages
