"""A question in text to tokens with one `@placeholder` in them, its names those of the document."""

import re
from collections.abc import Iterable
from itertools import chain, islice

from attar.errors import FormatError
from attar.text.names import NameTable
from attar.text.tokens import PLACEHOLDER, cut_chunk
from attar.text.vocabulary import Vocabulary

_BLANK = re.compile(r"_{2,}|@placeholder(?!\w)", re.IGNORECASE)
_WH = frozenset(("who", "whom", "whose", "what", "which", "where"))
_DO = frozenset(("did", "does", "do"))
_BE = frozenset(("is", "was", "are", "were"))
_PREPOSITIONS = frozenset(("for", "to", "with", "from", "by", "in", "at", "of", "on", "about", "against"))
# Nouns that only say what kind of name is asked for: "What company bought …"
_KINDS = frozenset(
    (
        *(
            "company",
            "firm",
            "city",
            "town",
            "country",
            "place",
            "village",
            "state",
            "river",
            "island",
            "street",
        ),
        *("person", "man", "woman", "girl", "boy", "name", "actor", "actress", "writer", "player", "lady"),
        *("team", "club", "band", "film", "book", "school", "house", "gentleman"),
    )
)
_LONGEST_NAME = 6


def read_question(text: str, table: NameTable, vocabulary: Vocabulary) -> list[str]:
    """Turn a question with `___`, `@placeholder` or a wh-word into lower-cased tokens and one `@placeholder`.

    >>> table = NameTable.of("Elizabeth Bennet")
    >>> read_question("Who married Elizabeth?", table, Vocabulary(()))
    ['@placeholder', 'married', '@entity0', '.']
    >>> read_question("elizabeth bennet lives in ___", table, Vocabulary(()))
    ['@entity0', 'lives', 'in', '@placeholder', '.']
    """
    words = list(chain.from_iterable(map(_lower_chunks.__getitem__, text.split())))
    blanks = words.count(PLACEHOLDER)
    if blanks > 1:
        raise FormatError("question", "one blank", f"{blanks} blanks", "ask for one name at a time")
    tokens = _mark_names(words, text, table, vocabulary)
    if not blanks:
        tokens = _blank_wh_word(tokens, text)
    while tokens[-1] in ("?", ".", "!"):
        tokens.pop()
    tokens.append(".")
    return tokens


class _Chunks(dict[str, tuple[str, ...]]):
    """The words of what stands between two spaces, cut once: questions repeat themselves. A blank is one."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(self) > 200_000:
            self.clear()
        pieces = _BLANK.sub(f" {PLACEHOLDER} ", chunk).split()
        found = self.spell(
            word for piece in pieces for word in ((piece,) if piece == PLACEHOLDER else cut_chunk(piece)[0])
        )
        if len(chunk) <= 40:
            self[chunk] = found
        return found

    def spell(self, words: Iterable[str]) -> tuple[str, ...]:
        return tuple(words)


class _LowerChunks(_Chunks):
    """The same in small letters."""

    def spell(self, words: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(str.lower, words))


_written_chunks, _lower_chunks = _Chunks(), _LowerChunks()


def _mark_names(words: list[str], text: str, table: NameTable, vocabulary: Vocabulary) -> list[str]:
    """Put `@entityN` for the names that the document has, the longest first, among words in small letters."""
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
                if table.meaning(longer) is not None:
                    key, stop = longer, end
                    break
        entity = table.meaning(key)
        if entity is None:  # initials, if it is written so; "was" seldom is
            entity = table.resolve([_written(at, text)]) if key.upper() in text else None
        elif stop - at == 1 and not _may_be_name(at, key, text, vocabulary):
            entity = None
        if entity is not None:
            tokens += words[done:at]
            tokens.append(f"@entity{entity}")
            done = stop
    tokens += words[done:]
    return tokens


def _may_be_name(at: int, word: str, text: str, vocabulary: Vocabulary) -> bool:
    """Take `elizabeth` for Elizabeth, since people type so, but not `will` for Will."""
    capital, small = vocabulary.capitals.get(word, (0, 0))
    if capital >= small:
        return True
    return not _written(at, text).islower()


def _written(at: int, text: str) -> str:
    """Give a word of the question with its capitals."""
    return next(islice(chain.from_iterable(map(_written_chunks.__getitem__, text.split())), at, None))


def _blank_wh_word(tokens: list[str], text: str) -> list[str]:
    asked = [at for at, token in enumerate(tokens) if token in _WH]
    leading = asked and (asked[0] == 0 or (asked[0] == 1 and tokens[0] in _PREPOSITIONS))
    if not asked or not (leading or "?" in text):
        shown = repr(text if len(text) <= 60 else text[:57] + "...")
        raise FormatError(
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
    if kind and (word == "which" or after[0] in _KINDS):
        after = after[1:]
    rest = [token for token in after if token != "?"]
    if rest and rest[0] in _DO:  # Who did Ann marry? → Ann marry ___
        return [*rest[1:], *(before or ["in"] * (word == "where")), PLACEHOLDER]
    if word == "where" and len(rest) > 1 and rest[0] in _BE:  # Where is Ann staying? → Ann is staying in ___
        return [rest[1], rest[0], *rest[2:], "in", PLACEHOLDER]
    return [*before, PLACEHOLDER, *rest]
