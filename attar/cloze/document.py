"""A document and its cloze questions, in tokens: what every format is read into and written from."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_ENTITY = "@entity"
# A number has one spelling, and a reader has an embedding for each up to the highest: the CNN and Daily Mail
# sets' own are some hundreds.
ENTITY_NUMBER = "0|[1-9][0-9]{0,3}"
_MARK = re.compile(f"{_ENTITY}({ENTITY_NUMBER})")


@dataclass(frozen=True, slots=True)
class Question:
    """Tokens with one `@placeholder`, and the number N of the `@entityN` that belongs there."""

    tokens: tuple[str, ...]
    answer: int


@dataclass(slots=True)
class ClozeDocument:
    """Sentences of tokens with `@entityN` for names, the names by N, and questions about them."""

    name: str
    source: str
    sentences: list[list[str]]
    names: dict[int, str]
    questions: list[Question] = field(default_factory=list)


def entity_of(token: str) -> int | None:
    """Give N for `@entityN`, N from 0 to 9999, None for any other token.

    >>> entity_of("@entity12"), entity_of("@entity"), entity_of("@entity007"), entity_of("house")
    (12, None, None, None)
    """
    if not token.startswith(_ENTITY):
        return None
    mark = _MARK.fullmatch(token)
    return int(mark[1]) if mark else None


def count_names(sentences: Iterable[Sequence[str]]) -> Counter[int]:
    """Count how often each name occurs, in the order of reading."""
    found = (entity_of(token) for sentence in sentences for token in sentence)
    return Counter(entity for entity in found if entity is not None)


def spell_out(document: ClozeDocument) -> str:
    r"""Give a document as text with its names put back, one sentence a paragraph; its other words stay small.

    >>> spell_out(ClozeDocument("a", "", [["@entity1", "met", "@entity0", "."], ["it", "rained"]], {1: "Ann Lee"}))
    'Ann Lee met @entity0 .\n\nit rained'
    """
    spelled = {f"{_ENTITY}{number}": name for number, name in document.names.items()}
    return "\n\n".join(" ".join(spelled.get(token, token) for token in row) for row in document.sentences)


def most_frequent_name(document: ClozeDocument, besides: Iterable[str] = ()) -> int | None:
    """Give the name that occurs most often, the first read of equals, but for those among some tokens.

    >>> document = ClozeDocument("a", "", [["@entity1", "met", "@entity0"], ["@entity1", "left"]], {})
    >>> most_frequent_name(document), most_frequent_name(document, ["did", "@entity1", "leave"])
    (1, 0)
    """
    counts = count_names(document.sentences)
    for token in besides:
        counts.pop(entity_of(token), None)  # type: ignore[arg-type]
    return max(counts, key=counts.__getitem__, default=None)
