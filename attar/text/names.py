"""The names met so far and their ids: what a reader keeps of a document's people, places and things."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated

import msgspec

from attar.errors import RecordError
from attar.text.aliases import OtherSpellings, Spellings, spell_like, spellings_of
from attar.text.vocabulary import ENTITIES


def _key(words: Iterable[str]) -> str:
    return " ".join(words).lower()


def _check_ids(highest: int, names: list[str]) -> None:
    if highest >= len(names):
        raise RecordError("table of names", f"ids of its {len(names)} names", str(highest), "it is damaged")


_Id = Annotated[int, msgspec.Meta(ge=0)]
_TABLE = msgspec.msgpack.Decoder(tuple[int, list[str], dict[str, _Id], msgspec.Raw])
_HOLDERS = msgspec.msgpack.Decoder(dict[str, Annotated[set[_Id], msgspec.Meta(min_length=1)]])
_NO_HOLDERS = msgspec.Raw(msgspec.msgpack.encode({}))


class NameTable:
    """Names by id, each in the longest spelling read; a short one means the one longer name that it fits.

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
        """The table of a text in which these names stand, in this order.

        >>> NameTable.of("Jane Austen", "Bath", "Austen").names
        ['Jane Austen', 'Bath']
        """
        table = cls(limit)
        for name in names:
            table.learn(name.split())
        return table

    @cached_property
    def _holders(self) -> dict[str, set[int]]:
        """The ids of the longer names that each part of a name is in; decoded when a part is first met."""
        try:
            holders = _HOLDERS.decode(self._written_holders)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise RecordError("table of names", "parts of names and who has them", f"{fault}") from fault
        _check_ids(max(map(max, holders.values()), default=-1), self.names)
        return holders

    @cached_property
    def _spellings(self) -> OtherSpellings:
        return OtherSpellings(self.ids, self.names)

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
        """Give the id that a name has, if any, in whatever case it is written; initials only in capitals."""
        name = " ".join(words)
        key = name.lower()
        found = self.meaning(key)
        if found is None:
            found = self._spellings.find(key) if " " in key else self._spellings.find_initials(name)
        return found

    def meaning(self, key: str) -> int | None:
        """Give the id of a name in small letters, its words parted by single spaces."""
        found = self.ids.get(key)
        if found is None:
            first, _, last = key.partition(" ")
            if last:  # a name without its middle names is two of its parts
                parts = first in self._holders and last in self._holders
                return self._spellings.find_without_middle(key) if parts else None
            holders = self._holders.get(key, ())
            if len(holders) == 1:
                (found,) = holders
        return found

    def longest_by_first_word(self) -> dict[str, int]:
        """Give how many words a name can have that begins with a word, by every word that begins one.

        >>> NameTable.of("Jane Austen").longest_by_first_word()
        {'jane': 2, 'austen': 1}
        """
        if self._counted < len(self.ids):  # what was learnt since
            longest = self._longest
            for key in islice(self.ids, self._counted, None):
                first = key.partition(" ")[0]
                longest[first] = max(longest.get(first, 0), key.count(" ") + 1)
                if " " in key:
                    for short in spellings_of(key).alone:
                        longest.setdefault(short, 1)
            self._counted = len(self.ids)
        return self._longest

    def learn(self, words: Sequence[str]) -> int | None:
        """Give a name's id, a new one if it is new; None once the table is full and the name stays words."""
        name = " ".join(words)
        return self.learn_spelled(name, name.lower())

    def learn_spelled(self, name: str, key: str) -> int | None:
        """Learn a name whose words are joined by spaces already, as written and in small letters."""
        found = self.ids.get(key)
        if found is not None:
            return found
        spellings = None
        if " " not in key:
            # A part of a longer name stays open: a second holder makes it mean neither.
            holders = self._holders.get(key)
            if holders and len(holders) == 1:
                return next(iter(holders))
            if name.isupper():
                found = self._spellings.find_initials(name)
        else:
            spellings = spellings_of(key)
            # Most names are like none before; one look tells.
            if key in self._spellings.by_short or not self.ids.keys().isdisjoint(spellings.all):
                found = self._spellings.find(key, by_part=True)
        if found is None:
            found = len(self.names)
            if found >= self.limit:
                return None
            self.names.append(name)
        elif len(name) > len(self.names[found]):
            self.names[found] = name
        self._note(key, spellings, found)
        return found

    def _note(self, key: str, spellings: Spellings | None, entity: int) -> None:
        self.ids[key] = entity
        if spellings is not None:
            holders = self._holders
            for word in spellings.lent:
                if word in holders:
                    holders[word].add(entity)
                else:
                    holders[word] = {entity}
            if spellings.short:
                self._spellings.note(spellings, entity)

    def copy(self) -> "NameTable":
        """Give a table that grows apart from this one."""
        table = NameTable(self.limit)
        table.names, table.ids = self.names.copy(), self.ids.copy()
        table._holders = {word: holders.copy() for word, holders in self._holders.items()}
        return table

    def learn_all(self, other: "NameTable") -> list[int | None]:
        """Learn another table's names as if its text came next; give their ids here, by their ids there.

        A lone name that here is part of a longer one joins it. What a name became it stays, so that what was
        written of it can be taken out again. None where this table is full.

        >>> NameTable.of("Bath", "Jane Bennet").learn_all(NameTable.of("Bennet", "London"))
        [1, 2]
        """
        places: list[int | None] = [None] * len(other.names)
        for key, n in other.ids.items():  # in the order in which they were learnt
            words = other.names[n].split()
            if _key(words) == key:
                places[n] = place = self.learn(words)
                if place is not None and key not in self.ids:
                    self._note(key, spellings_of(key) if " " in key else None, place)
            else:  # another spelling
                self.learn(spell_like(key, other.names[n]).split(" "))
        return places

    def agrees_with(self, other: "NameTable") -> bool:
        """Tell whether both can be one table at two times: where both have an id it means the same name.

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
        # What a name was called at first it is still called when it has a longer spelling.
        return all(
            a == b or other.ids.get(a.lower()) == n or self.ids.get(b.lower()) == n
            for n, (a, b) in enumerate(both)
        )

    def to_bytes(self) -> bytes:
        """Give all that the table is as MessagePack: limit, names, ids and the holders of parts of names."""
        holders: msgspec.Raw | dict[str, list[int]] = self._written_holders
        if "_holders" in self.__dict__:
            # In order: how a set lies in memory depends on how it grew.
            holders = {word: sorted(entities) for word, entities in self._holders.items()}
        return msgspec.msgpack.encode((self.limit, self.names, self.ids, holders))

    @classmethod
    def from_bytes(cls, buffer: bytes | bytearray | memoryview) -> "NameTable":
        """Take up what `to_bytes` gave.

        >>> NameTable.from_bytes(NameTable.of("Bath", "Jane Austen").to_bytes()).resolve(["Austen"])
        1
        """
        try:
            limit, names, ids, holders = _TABLE.decode(buffer)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise RecordError("table of names", "limit, names, ids and holders", f"{fault}") from fault
        _check_ids(max(ids.values(), default=-1), names)
        table = cls(limit)
        # A copy of the bytes: the buffer may be a store's, and gone by the time they are needed.
        table.names, table.ids, table._written_holders = names, ids, holders.copy()
        return table
