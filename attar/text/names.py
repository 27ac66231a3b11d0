"""The names met so far and their ids: what a reader keeps of a document's people, places and things."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from attar.errors import FormatError
from attar.text.english import FUNCTION_WORDS, NOT_PEOPLE, SUFFIXES
from attar.text.vocabulary import ENTITIES

# Henry VIII, World War II; not Jet Li.
NUMERAL = re.compile("(?=[XVI])(XL|X{0,3})(IX|IV|V?I{0,3})")


def _key(words: Iterable[str]) -> str:
    return " ".join(words).lower()


def _lent(words: Sequence[str]) -> list[str]:
    """Give the words by which alone a longer name may be called: a person's first name and surname."""
    lower = [word.lower() for word in words]
    while lower and (NUMERAL.fullmatch(lower[-1].upper()) or lower[-1] in SUFFIXES):
        lower.pop()
    if len(lower) < 2 or not NOT_PEOPLE.isdisjoint(lower):
        return []
    return [
        word for word in (lower[0], lower[-1]) if word not in FUNCTION_WORDS and word[-1] != "." and word[1:]
    ]


class NameTable:
    """Names by id as they were read; a lone first name or surname means the one longer name that holds it.

    >>> table = NameTable()
    >>> [table.learn(name.split()) for name in ("Jane Austen", "Bath", "Austen", "Fanny", "Fanny Price")]
    [0, 1, 0, 2, 2]
    >>> table.names
    ['Jane Austen', 'Bath', 'Fanny Price']
    """

    def __init__(self, limit: int = ENTITIES) -> None:
        self.limit = limit
        self.names: list[str] = []
        self.ids: dict[str, int] = {}
        self._holders: dict[str, set[int]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NameTable):
            return NotImplemented
        return (self.limit, self.names, self.ids) == (other.limit, other.names, other.ids)

    __hash__ = None  # type: ignore[assignment]  # a table grows

    def has(self, words: Sequence[str]) -> bool:
        """Tell whether these very words have been a name before."""
        return _key(words) in self.ids

    def resolve(self, words: Sequence[str]) -> int | None:
        """Give the id that a name has, if any, in whatever case it is written."""
        key = _key(words)
        found = self.ids.get(key)
        if found is None and len(words) == 1:
            holders = self._holders.get(key, ())
            if len(holders) == 1:
                (found,) = holders
        return found

    def learn(self, words: Sequence[str]) -> int | None:
        """Give a name's id, a new one if it is new; None once the table is full and the name stays words."""
        found = self.resolve(words)
        # Read before; or a part of a longer name, which stays open: a second holder makes it mean neither.
        if found is not None:
            return found
        # The longer name of somebody known by a part of it so far.
        parts = (self.ids.get(word) for word in _lent(words))
        found = next((n for n in parts if n is not None and " " not in self.names[n]), None)
        if found is not None:
            self.names[found] = " ".join(words)
        elif len(self.names) < self.limit:
            found = len(self.names)
            self.names.append(" ".join(words))
        else:
            return None
        self._note(words, found)
        return found

    def _note(self, words: Sequence[str], entity: int) -> None:
        self.ids[_key(words)] = entity
        for word in _lent(words):
            self._holders.setdefault(word, set()).add(entity)

    def to_json(self) -> dict[str, Any]:
        """Give what a later reader needs to go on: names by id, and the other words that mean them."""
        plain = {_key(name.split()): n for n, name in enumerate(self.names)}
        aliases = {key: n for key, n in self.ids.items() if plain.get(key) != n}
        return {"limit": self.limit, "names": list(self.names), "aliases": aliases}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> "NameTable":
        """Take up what `to_json` gave."""
        try:
            table = cls(int(state["limit"]))
            table.names = [str(name) for name in state["names"]]
            for n, name in enumerate(table.names):
                table._note(name.split(), n)
            for key, n in state["aliases"].items():
                if not 0 <= n < len(table.names):
                    raise ValueError(f"the alias of a name {n} that is not there")
                table._note(key.split(), n)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise FormatError(
                "table of names", "limit, names and aliases", f"another object ({fault})"
            ) from fault
        return table
