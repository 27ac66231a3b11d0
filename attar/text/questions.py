"""A question in text into tokens with one `@placeholder`, its names replaced with the document's `@entityN`."""

import re
from itertools import chain, islice

from attar.errors import FormatError
from attar.text.english import KINDS_OF_NAMES, TITLES
from attar.text.name_table import NameTable
from attar.text.tokens import PLACEHOLDER, ChunkCache, cut_chunk
from attar.text.vocabulary import Vocabulary

_BLANK = re.compile(r"_{2,}|@placeholder(?!\w)", re.IGNORECASE)
_WH = frozenset(("who", "whom", "whose", "what", "which", "where"))
_DO = frozenset(("did", "does", "do"))
_BE = frozenset(("is", "was", "are", "were"))
_PREPOSITIONS = frozenset(("for", "to", "with", "from", "by", "in", "at", "of", "on", "about", "against"))
_LONGEST_NAME = 6  # in words


def read_question(text: str, table: NameTable, vocabulary: Vocabulary) -> list[str]:
    """Turn a question with `___`, `@placeholder` or a wh-word into lower-case tokens and one `@placeholder`.

    >>> table = NameTable.of("Elizabeth Bennet")
    >>> read_question("Who married Elizabeth?", table, Vocabulary(()))
    ['@placeholder', 'married', '@entity0', '.']
    >>> read_question("elizabeth bennet lives in ___", table, Vocabulary(()))
    ['@entity0', 'lives', 'in', '@placeholder', '.']
    """
    words = list(chain.from_iterable(map(_lower_words.__getitem__, text.split())))
    blanks = words.count(PLACEHOLDER)
    if blanks > 1:
        raise FormatError.expected("question", "one blank", f"{blanks} blanks", "ask for one name at a time")
    tokens = _mark_names(words, text, table, vocabulary)
    if not blanks:
        tokens = _blank_wh_word(tokens, text)
    tokens = _without_titles(tokens, text)
    while tokens[-1] in ("?", ".", "!"):
        tokens.pop()
    tokens.append(".")
    return tokens


def _cut(chunk: str) -> tuple[str, ...]:
    """Cut the text between two spaces into words; a blank is one word."""
    words: list[str] = []
    for piece in _BLANK.sub(f" {PLACEHOLDER} ", chunk).split():
        words += (piece,) if piece == PLACEHOLDER else cut_chunk(piece).words
    return tuple(words)


_words = ChunkCache(_cut)
_lower_words = ChunkCache(lambda chunk: tuple(map(str.lower, _cut(chunk))))


def _mark_names(words: list[str], text: str, table: NameTable, vocabulary: Vocabulary) -> list[str]:
    """Replace the document's names among lower-case words with `@entityN`, the longest first."""
    longest = table.longest_by_first_word()
    tokens: list[str] = []
    done = 0
    for at in [at for at, word in enumerate(words) if word in longest]:
        if at < done:
            continue
        key, stop = words[at], at + 1
        most = longest[key]
        if most > 1:
            for end in range(min(at + min(most, _LONGEST_NAME), len(words)), stop, -1):
                longer = " ".join(words[at:end])
                if table.id_of(longer) is not None:
                    key, stop = longer, end
                    break
        entity = table.id_of(key)
        if entity is None:  # initials, if it is written in capitals
            entity = table.resolve([_as_written(at, text)]) if key.upper() in text else None
        elif stop - at == 1 and not _may_be_name(at, key, text, vocabulary):
            entity = None
        if entity is not None:
            tokens += words[done:at]
            tokens.append(f"@entity{entity}")
            done = stop
    tokens += words[done:]
    return tokens


def _without_titles(tokens: list[str], text: str) -> list[str]:
    """Leave out titles before names and before the blank, as texts are read."""
    kept: list[str] = []
    for token in tokens:
        if token == PLACEHOLDER or token.startswith("@entity"):
            while kept and kept[-1].rstrip(".") in TITLES and kept[-1].capitalize() in text:
                kept.pop()
        kept.append(token)
    return kept


def _may_be_name(at: int, word: str, text: str, vocabulary: Vocabulary) -> bool:
    """Accept `elizabeth` for Elizabeth, as people type it, but not `will` for Will."""
    capital, small = vocabulary.capitals.get(word, (0, 0))
    if capital >= small:
        return True
    return not _as_written(at, text).islower()


def _as_written(at: int, text: str) -> str:
    """Return a word of the question with its capitals."""
    return next(islice(chain.from_iterable(map(_words.__getitem__, text.split())), at, None))


def _blank_wh_word(tokens: list[str], text: str) -> list[str]:
    """Turn a wh-question into a statement with a blank."""
    asked = [at for at, token in enumerate(tokens) if token in _WH]
    leading = asked and (asked[0] == 0 or (asked[0] == 1 and tokens[0] in _PREPOSITIONS))
    if not asked or not (leading or "?" in text):
        shown = repr(text if len(text) <= 60 else text[:57] + "...")
        raise FormatError.expected(
            "question",
            "a blank (___ or @placeholder) or a wh-word (who, whom, whose, what, which, where)",
            shown if text.strip() else "nothing",
            'ask "___ married Elizabeth ." or "Who married Elizabeth?"',
        )
    at = asked[0]
    word, before, after = tokens[at], tokens[:at], tokens[at + 1 :]
    if word == "whose":
        return [*before, PLACEHOLDER, "'s", *after]
    auxiliary = after and after[0] in (_DO | _BE)
    kind = word in ("what", "which") and len(after) > 1 and after[0].isalpha() and not auxiliary
    if kind and (word == "which" or after[0] in KINDS_OF_NAMES):
        after = after[1:]
    rest = [token for token in after if token != "?"]
    if rest and rest[0] in _DO:  # Who did Ann marry? → Ann marry ___
        return [*rest[1:], *(before or ["in"] * (word == "where")), PLACEHOLDER]
    if word == "where" and len(rest) > 1 and rest[0] in _BE:  # Where is Ann staying? → Ann is staying in ___
        return [rest[1], rest[0], *rest[2:], "in", PLACEHOLDER]
    return [*before, PLACEHOLDER, *rest]
