"""Text to sentences of words, in one pass that never looks further than the next word."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import chain
from operator import itemgetter

from attar.text.english import ABBREVIATIONS, BEFORE_NAMES, STARTERS

PLACEHOLDER = "@placeholder"
# A sentence without an end (a table, a list) is cut here, so that whatever looks ahead in one stays bounded.
LONGEST = 256

PARAGRAPH = re.compile(r"\n\s*\n")
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

# How a chunk ends: inside a sentence, at its end, perhaps there (what follows settles it), or with "No."
INSIDE, END, PERHAPS, NUMBER = 0, 1, 2, 3
# Its words, how it ends, whether a small letter begins it, whether a word that often begins a sentence.
Chunk = tuple[tuple[str, ...], int, bool, bool]
_words_of = itemgetter(0)


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


class _Chunks(dict[str, Chunk]):
    """What stands between two spaces, cut into words once: text repeats itself, and a look-up is cheap."""

    def __init__(self, cut: Callable[[str], Chunk]) -> None:
        self._cut = cut

    def __missing__(self, chunk: str) -> Chunk:
        if len(self) > 200_000:
            self.clear()
        found = self._cut(chunk)
        if len(chunk) <= 40:
            self[chunk] = found
        return found


def cut_chunk(chunk: str) -> Chunk:
    """Cut what stands between two spaces into words; what looks like the mark of a name or a blank is one too.

    >>> cut_chunk("Ann's,")
    (('Ann', "'s", ','), 0, False, False)
    >>> cut_chunk("@entity7's")[0]
    ('entity7', "'s")
    """
    return _cut_plain(chunk) or _cut(chunk, marked=False)


def cut_marked_chunk(chunk: str) -> Chunk:
    """Cut the same where names and blanks are marked, as in a cloze set's texts.

    >>> cut_marked_chunk("@entity7's")[0]
    ('@entity7', "'s")
    """
    return _cut_plain(chunk) or _cut(chunk, marked=True)


def _cut_plain(chunk: str) -> Chunk | None:
    """Cut the plain chunks, most of them: letters between marks, and no full stop that might abbreviate."""
    core = chunk.strip("\"'(),.;:!?[]")
    if not (core.isalpha() and core.isascii()):
        return None
    start = chunk.index(core)
    stop = start + len(core)
    if ".." in chunk or "''" in chunk or (chunk[stop : stop + 1] == "." and len(core) < 7):
        return None
    if len(core) < 3 and "'" in chunk[:start]:  # 's, 'll
        return None
    last = chunk.rstrip("\"')]")[-1]
    ending = END if last in _ENDS else INSIDE
    return (*chunk[:start], core, *chunk[stop:]), ending, core[0].islower(), core in STARTERS


def _cut(chunk: str, *, marked: bool) -> Chunk:
    """Cut any chunk into words, and tell how it ends and begins."""
    if not chunk.isascii():
        chunk = unicodedata.normalize("NFC", chunk)
    found: list[str] = []
    for word in _TOKEN.findall(chunk.translate(_QUOTES)):
        if word.isalnum() or (word in _MARKS):
            found.append(word)
        elif word[0] == "@" and len(word) > 1:
            found.append(word if marked else word[1:])
        else:
            found += _split_word(word)
    words = tuple(found)
    last = words[-1] if words else ""
    if last in _CLOSERS:
        last = next((word for word in reversed(words) if word not in _CLOSERS), "")
    ending = INSIDE
    if last in _ENDS:
        ending = NUMBER if words[-2:] == ("No", ".") else END
    elif len(last) > 1 and last[-1] == "." and last.lower() not in BEFORE_NAMES:
        ending = PERHAPS
    letter = next((word for word in words if word[0].isalpha()), "")
    return words, ending, letter[:1].islower(), letter in STARTERS


_chunks, _marked_chunks = _Chunks(cut_chunk), _Chunks(cut_marked_chunk)


def breaks_between(left: Chunk, right: Chunk) -> bool:
    """Tell whether a sentence ends between two: `"Why?" said he` goes on, `"Why?" He left` does not."""
    if left[1] == PERHAPS:
        return right[3]
    return not right[2] and not (left[1] == NUMBER and right[0][:1] and right[0][0][0].isdigit())


def iterate_sentences(text: str, *, marked: bool = False) -> Iterator[list[str]]:
    """Yield the sentences of a text one by one, holding no more than a paragraph's words.

    In marked text `@entityN` and `@placeholder` stand for names and blanks; in any other they are words like
    any other, without the @, so that nobody's text is taken for what a set has marked.
    """
    known = _marked_chunks if marked else _chunks
    start = 0
    while start < len(text):
        found = PARAGRAPH.search(text, start)
        stop, following = (found.start(), found.end()) if found else (len(text), len(text))
        yield from _sentences_of_paragraph(list(map(known.__getitem__, text[start:stop].split())))
        start = following


def _sentences_of_paragraph(chunks: list[Chunk]) -> Iterator[list[str]]:
    last = len(chunks) - 1
    start = 0
    for at in [at for at, chunk in enumerate(chunks) if chunk[1] or at == last]:
        if at == last or breaks_between(chunks[at], chunks[at + 1]):
            words = list(chain.from_iterable(map(_words_of, chunks[start : at + 1])))
            start = at + 1
            if len(words) <= LONGEST:
                if words:
                    yield words
            else:
                yield from (words[cut : cut + LONGEST] for cut in range(0, len(words), LONGEST))


def sentences(text: str) -> list[list[str]]:
    """Cut a text into sentences of words, capitals kept; a blank line always ends a sentence.

    >>> sentences('"Why?" said Mr. Darcy. He left Elizabeth\\'s house.')
    [['"', 'Why', '?', '"', 'said', 'Mr.', 'Darcy', '.'], ['He', 'left', 'Elizabeth', "'s", 'house', '.']]
    """
    return list(iterate_sentences(text))


def ends_sentence(text: str, following: str = "") -> bool:
    """Tell whether a text ends where a sentence does, so that what follows can be read on its own.

    >>> ends_sentence("He left. "), ends_sentence("He saw Mr. "), ends_sentence("He left. ", "and came back.")
    (True, False, False)
    """
    if not text.strip() or PARAGRAPH.search(text[len(text.rstrip()) :]):
        return True
    if not (text[-1].isspace() or following[:1].isspace()):
        return not following and _chunks[text.split()[-1]][1] in (END, NUMBER)
    left, right = _chunks[text.split()[-1]], following.split(None, 1)[:1]
    return bool(left[1]) and breaks_between(left, _chunks[right[0]]) if right else left[1] in (END, NUMBER)
