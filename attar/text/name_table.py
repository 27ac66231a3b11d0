"""The names of a document and their ids, each in its longest spelling."""

from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated

import msgspec

from attar.errors import RecordError
from attar.text.aliases import (
    GENDERED_TITLES,
    AliasIndex,
    Spellings,
    is_other_gender,
    spell_like,
    spellings_of,
)
from attar.text.vocabulary import ENTITIES


def _check_ids(highest: int, names: list[str]) -> None:
    if highest >= len(names):
        raise RecordError.expected(
            "table of names", f"ids of its {len(names)} names", str(highest), "it is damaged"
        )


_Id = Annotated[int, msgspec.Meta(ge=0)]
_TABLE = msgspec.msgpack.Decoder(tuple[int, list[str], dict[str, _Id], msgspec.Raw])
_HOLDERS = msgspec.msgpack.Decoder(dict[str, Annotated[set[_Id], msgspec.Meta(min_length=1)]])
_NO_HOLDERS = msgspec.Raw(msgspec.msgpack.encode({}))


class NameTable:
    """Names by id, each in the longest spelling read; a short form means the one longer name that it fits.

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
        self._written_holders = _NO_HOLDERS
        self._longest: dict[str, int] = {}
        self._counted = 0

    @classmethod
    def of(cls, *names: str, limit: int = ENTITIES) -> "NameTable":
        """The table of a text with these names, in this order.

        >>> NameTable.of("Jane Austen", "Bath", "Austen").names
        ['Jane Austen', 'Bath']
        """
        table = cls(limit)
        for name in names:
            table.learn(name.split())
        return table

    @cached_property
    def _holders(self) -> dict[str, set[int]]:
        """The ids of the longer names that have each part; decoded when first needed."""
        try:
            holders = _HOLDERS.decode(self._written_holders)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise RecordError.expected(
                "table of names", "parts of names and the ids that have them", f"{fault}"
            ) from fault
        _check_ids(max(map(max, holders.values()), default=-1), self.names)
        return holders

    @cached_property
    def _aliases(self) -> AliasIndex:
        return AliasIndex(self.ids, self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_full(self) -> bool:
        """Whether further names of the text were, or would be, left out: the network has no more ids for names."""
        return len(self.names) >= self.limit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NameTable):
            return NotImplemented
        return (self.limit, self.names, self.ids) == (other.limit, other.names, other.ids)

    __hash__ = None  # type: ignore[assignment]  # a table grows

    def resolve(self, words: Sequence[str]) -> int | None:
        """Return the id of a name in any case, or None; initials count only in capitals."""
        name = " ".join(words)
        key = name.lower()
        entity = self.id_of(key)
        if entity is None:
            entity = self._aliases.find(key) if " " in key else self._aliases.find_initials(name)
        return entity

    def id_of(self, key: str) -> int | None:
        """Return the id of a lower-case name whose words are joined by single spaces."""
        entity = self.ids.get(key)
        if entity is None:
            first, _, last = key.partition(" ")
            if last:  # a name without its middle names is two of its parts
                parts = first in self._holders and last in self._holders
                return self._aliases.find_without_middle(key) if parts else None
            holders = self._holders.get(key, ())
            if len(holders) == 1:
                (entity,) = holders
        return entity

    def longest_by_first_word(self) -> dict[str, int]:
        """Return the length in words of the longest name per first word.

        >>> NameTable.of("Jane Austen").longest_by_first_word()
        {'jane': 2, 'austen': 1}
        """
        if self._counted < len(self.ids):  # names learned since the last call
            longest = self._longest
            for key in islice(self.ids, self._counted, None):
                first = key.partition(" ")[0]
                longest[first] = max(longest.get(first, 0), key.count(" ") + 1)
                if " " in key:
                    for short in spellings_of(key).single_words:
                        longest.setdefault(short, 1)
            self._counted = len(self.ids)
        return self._longest

    def learn(self, words: Sequence[str], title: str = "") -> int | None:
        """Return a name's id, a new one if the name is new; None if it is new and the table is full.

        A surname after a title that tells a man from a woman, such as Mr., is not a person of the other kind.

        >>> table = NameTable.of("Emma Woodhouse")
        >>> table.learn(["Woodhouse"]), table.learn(["Woodhouse"], "Mr."), table.learn(["Woodhouse"], "Miss")
        (0, 1, 0)
        """
        name = " ".join(words)
        key = name.lower()
        if title.lower() in GENDERED_TITLES and " " not in key:
            return self._learn_titled(title.lower(), name)
        entity = self.ids.get(key)
        if entity is not None:
            return entity
        spellings = None
        if " " not in key:
            # A part of a longer name stays open: a second holder makes it mean neither.
            holders = self._holders.get(key)
            if holders and len(holders) == 1:
                return next(iter(holders))
            if name.isupper():
                entity = self._aliases.find_initials(name)
        else:
            spellings = spellings_of(key)
            # Most names are like none before; one test of all their spellings shows it.
            if key in self._aliases.by_short or not self.ids.keys().isdisjoint(spellings.all):
                entity = self._aliases.find(key, by_part=True)
        if entity is None:
            entity = len(self.names)
            if entity >= self.limit:
                return None
            self.names.append(name)
        elif len(name) > len(self.names[entity]):
            self.names[entity] = name
        self._note(key, spellings, entity)
        return entity

    def _learn_titled(self, title: str, name: str) -> int | None:
        """Learn a surname with its title; both are kept as a spelling, so that a later full name can tell."""
        key = name.lower()
        titled = f"{title} {key}"
        if titled in self.ids:
            return self.ids[titled]
        entity = self.learn([name])
        if entity is not None and is_other_gender(self.names[entity].lower().partition(" ")[0], title):
            entity = len(self.names)
            if entity >= self.limit:
                return None
            self.names.append(name)
        if entity is not None:
            self.ids[titled] = entity
        return entity

    def _note(self, key: str, spellings: Spellings | None, entity: int) -> None:
        self.ids[key] = entity
        if spellings is not None:
            for word in spellings.parts:
                self._holders.setdefault(word, set()).add(entity)
            if spellings.short:
                self._aliases.add(spellings, entity)

    def copy(self) -> "NameTable":
        """Return a table that grows independently of this one."""
        table = NameTable(self.limit)
        table.names, table.ids = self.names.copy(), self.ids.copy()
        table._holders = {word: holders.copy() for word, holders in self._holders.items()}
        return table

    def learn_all(self, other: "NameTable") -> list[int | None]:
        """Learn another table's names as if its text came next; return their ids here, by their ids there.

        A single word that is part of a longer name here joins it. A name keeps the id that it got, so that
        what was written under it can be subtracted again. None where this table is full.

        >>> NameTable.of("Bath", "Jane Bennet").learn_all(NameTable.of("Bennet", "London"))
        [1, 2]
        """
        ids: list[int | None] = [None] * len(other.names)
        for key, n in other.ids.items():  # in the order in which they were learned
            words = other.names[n].split()
            title, _, rest = key.partition(" ")
            if rest and title in GENDERED_TITLES and " ".join(words).lower() != key:
                entity = self.learn(spell_like(rest, other.names[n]).split(" "), title)
                ids[n] = entity if ids[n] is None else ids[n]
            elif " ".join(words).lower() == key:
                ids[n] = entity = self.learn(words)
                if entity is not None and key not in self.ids:
                    self._note(key, spellings_of(key) if " " in key else None, entity)
            else:  # another spelling
                self.learn(spell_like(key, other.names[n]).split(" "))
        return ids

    def agrees_with(self, other: "NameTable") -> bool:
        """Tell whether both can be one table at two times: ids that both have mean the same names.

        >>> table, grown, apart = NameTable.of("Bath"), NameTable.of("Bath", "London"), NameTable.of("London")
        >>> table.agrees_with(grown), grown.agrees_with(table), table.agrees_with(apart)
        (True, True, False)
        """
        shared = self.ids.keys() & other.ids.keys()
        if any(self.ids[key] != other.ids[key] for key in shared):
            return False
        both = list(zip(self.names, other.names, strict=False))
        if len({self.ids[key] for key in shared}) < len(both):
            return False
        # A name's first spelling stays among the ids when it gets a longer one.
        return all(
            a == b or other.ids.get(a.lower()) == n or self.ids.get(b.lower()) == n
            for n, (a, b) in enumerate(both)
        )

    def to_bytes(self) -> bytes:
        """Encode the whole table as MessagePack: limit, names, ids and the holders of parts of names."""
        holders: msgspec.Raw | dict[str, list[int]] = self._written_holders
        if "_holders" in self.__dict__:
            # Sorted: a set's own order depends on how it grew.
            holders = {word: sorted(entities) for word, entities in self._holders.items()}
        return msgspec.msgpack.encode((self.limit, self.names, self.ids, holders))

    def check_contents(self) -> None:
        """Raise `RecordError` if the parts of names, which are decoded when first needed, cannot be decoded."""
        self._holders  # noqa: B018

    @classmethod
    def from_bytes(cls, buffer: bytes | bytearray | memoryview) -> "NameTable":
        """Decode what `to_bytes` returned.

        >>> NameTable.from_bytes(NameTable.of("Bath", "Jane Austen").to_bytes()).resolve(["Austen"])
        1
        """
        try:
            limit, names, ids, holders = _TABLE.decode(buffer)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise RecordError.expected(
                "table of names", "limit, names, ids and holders", f"{fault}"
            ) from fault
        _check_ids(max(ids.values(), default=-1), names)
        table = cls(limit)
        # A copy of the bytes: the buffer may be a store's, and invalid by the time they are needed.
        table.names, table.ids, table._written_holders = names, ids, holders.copy()
        return table
