"""What a store keeps: keys, the origin and the entry of a document, the store's header, and a whole document.

LMDB maps keys to values. A key is one letter for the kind, two of them in `transactions.py`, and the document's name:

| kind | value |
|---|---|
| `a` | the store's `Header`, msgpack; the only key without a name |
| `f` | a document's `DocumentEntry`, msgpack |
| `m` | its memory: the bytes of `Memory.to_bytes` |
| `t` | its text if kept, UTF-8 compressed by zlib |

Every value lies in an envelope with a checksum (`attar.memory.memory`); a memory has its own, the same.
"""

import hashlib
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec

from attar.errors import OptionError, RecordError, quoted
from attar.memory.memory import Buffer, Memory, called, unwrap, wrap

# Where each part begins, in characters of the text, and its label; an empty label ends the part before.
Parts = Sequence[tuple[int, str]]

# The most bytes of a document's parts, decompressed.
_MOST = 2**24
_parts = msgspec.msgpack.Decoder(list[tuple[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)], str]])


def pack_parts(parts: Parts) -> bytes:
    """The bytes that keep the parts of a text: decoded only for an answer, so that lists stay quick.

    >>> unpack_parts(pack_parts([(0, "page 1"), (900, "page 2")]), "emma")
    [(0, 'page 1'), (900, 'page 2')]
    """
    return zlib.compress(msgspec.msgpack.encode(list(parts)), 1) if parts else b""


def unpack_parts(data: bytes, name: str) -> list[tuple[int, str]]:
    """The parts of a text, checked: they are in the order of their places."""
    if not data:
        return []
    try:
        decompressor = zlib.decompressobj()
        parts = _parts.decode(decompressor.decompress(data, _MOST))
        if not decompressor.eof or any(a > b for (a, _), (b, _) in pairwise(parts)):
            raise ValueError("too many, or not in order")
    except (zlib.error, msgspec.DecodeError, ValueError) as fault:
        raise RecordError.expected(f"parts of {quoted(name)}", "places and labels", str(fault)) from fault
    return parts


Kind = Literal[b"a", b"f", b"m", b"t", b"s", b"j"]

HEADER_KEY = b"a"
# The kinds of values that belong to one document.
DOCUMENT_KINDS: tuple[Kind, ...] = (b"f", b"m", b"t", b"s")

# LMDB's keys have at most 511 bytes. A longer name is cut and followed by its SHA-256. Such keys are longer than
# any other, so they never collide with the key of a short name; the entry holds the whole name.
LONGEST_PLAIN_KEY = 511 - 1 - hashlib.sha256().digest_size

# zlib's level 1 takes 0.09 µs per token and leaves 46 % of the size; level 6 takes 0.34 µs and leaves 39 %.
_COMPRESSION = 1


def key_of(name: str) -> bytes:
    """Return the key of a name, without the letter for the kind; an empty name, or no Unicode text, is refused.

    >>> key_of("Emma, ch. 1"), len(key_of("x" * 10_000))
    (b'Emma, ch. 1', 510)
    """
    try:
        key = name.encode()
    except UnicodeEncodeError:
        raise OptionError(f"name {quoted(name)} has half of a surrogate pair", "rename it") from None
    if not key:
        raise OptionError.expected("name", "at least one character", "an empty one")
    if len(key) > LONGEST_PLAIN_KEY:
        return key[:LONGEST_PLAIN_KEY] + hashlib.sha256(key).digest()
    return key


def name_in(key: bytes) -> str:
    """Return the name in a key, as far as it has it: of a long name, the beginning."""
    name = key[:LONGEST_PLAIN_KEY].decode(errors="replace")
    return name if len(key) <= LONGEST_PLAIN_KEY else name + "…"


def values_of(transaction: Any, kind: Kind, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
    """Yield the key, without the letter of its kind, and the value of each of a kind, from the key `start` on."""
    with transaction.cursor() as cursor:
        for key, value in cursor if cursor.set_range(kind + start) else ():
            if bytes(key[:1]) != kind:
                break
            yield bytes(key[1:]), value


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# Up to the year 9999, the last that Python's datetime has.
_Time = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999_999)]


class DocumentEntry(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What the store knows of a document without its memory: a small value, so that lists are quick.

    Times are in microseconds since 1970, UTC. Later versions add fields at the end, with defaults.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    title: str = ""
    # SHA-256 of the text; empty if the text is not known.
    digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    created: _Time = 0
    changed: _Time = 0
    tokens: _Count = 0
    memory_bytes: _Count = 0
    text_bytes: _Count | None = None
    # Ids of the last changes that a client may repeat, the newest last; before them, if it was appended to, the
    # digest of the text that its file had.
    applied: tuple[Annotated[bytes, msgspec.Meta(max_length=32)], ...] = ()
    # The file that it was read from and has not been changed since, the document's own date, and `pack_parts`.
    source: str = ""
    date: str = ""
    parts: bytes = b""
    # The most bytes that its memory may take, also when it is continued; 0: any number.
    budget: _Count = 0
    # What of its file the text is without; empty if it has all.
    incomplete: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


class Header(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The store's header: the reader of its memories, and the totals over all documents."""

    reader: str | None
    created: _Time
    documents: int = 0
    tokens: int = 0
    memory_bytes: int = 0
    text_bytes: int = 0

    def plus(self, entry: DocumentEntry, times: int = 1) -> "Header":
        """Add a document to the totals, or subtract it with `times=-1`.

        >>> header = Header(reader="r", created=0).plus(DocumentEntry(name="a", tokens=7, memory_bytes=400))
        >>> header.documents, header.tokens, header.memory_bytes
        (1, 7, 400)
        """
        return msgspec.structs.replace(
            self,
            documents=self.documents + times,
            tokens=self.tokens + times * entry.tokens,
            memory_bytes=self.memory_bytes + times * entry.memory_bytes,
            text_bytes=self.text_bytes + times * (entry.text_bytes or 0),
        )


@dataclass(frozen=True)
class Fault:
    """A fault in one line, and the document that has it (None: the store itself)."""

    name: str | None
    line: str


_ADD_AGAIN = "add the document again"
_encode = msgspec.msgpack.Encoder().encode
_entries = msgspec.msgpack.Decoder(DocumentEntry)
_headers = msgspec.msgpack.Decoder(Header)


def write_entry(entry: DocumentEntry) -> bytes:
    try:
        return wrap(b"f", _encode(entry), "entry", entry.name)
    except UnicodeEncodeError:
        message = f"{called('entry', entry.name)} has half of a surrogate pair"
        raise OptionError(message, "decode its title as UTF-8") from None


def read_entry(key: bytes, value: Buffer) -> DocumentEntry:
    """The entry under a key; an entry of another name is refused."""
    name = name_in(key)
    try:
        entry = _entries.decode(unwrap(b"f", value, "entry", name))
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise _damaged("entry", name, fault, _ADD_AGAIN) from fault
    if key_of(entry.name) != key:
        raise RecordError(f"entry of {quoted(name)} is the entry of {quoted(entry.name)}")
    return entry


def entry_or_fault(key: bytes, value: Buffer) -> DocumentEntry | Fault:
    """The entry under a key, or its fault."""
    try:
        return read_entry(key, value)
    except RecordError as fault:
        return Fault(name_in(key), str(fault))


def write_header(header: Header) -> bytes:
    return wrap(b"a", _encode(header), "header")


def read_header(value: Buffer, store: str) -> Header:
    try:
        return _headers.decode(unwrap(b"a", value, "header", store))
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        remedy = f"make it again from the documents: attar store repair {store}"
        raise _damaged("header", store, fault, remedy) from fault


def _damaged(what: str, name: str, fault: Exception, remedy: str) -> RecordError:
    return RecordError(f"{called(what, name)} is damaged: {fault}", remedy)


def now() -> int:
    """Return the time as the store keeps it: microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def digest_of(text: str | bytes) -> bytes:
    """Return the SHA-256 of a text, or of its UTF-8, by which the store recognizes a text that it already has.

    >>> digest_of("Emma").hex()[:8]
    'd9dacb3e'
    """
    return hashlib.sha256(_utf8(text)).digest()


def write_text(text: str | bytes, name: str) -> bytes:
    """The value of a text, or of its UTF-8.

    >>> read_text(write_text("Emma Woodhouse", "emma"), "emma")
    'Emma Woodhouse'
    """
    return wrap(b"t", zlib.compress(_utf8(text), _COMPRESSION), "text", name)


def read_text(value: Buffer, name: str) -> str:
    try:
        return zlib.decompress(unwrap(b"t", value, "text", name)).decode()
    except (zlib.error, UnicodeDecodeError) as fault:
        raise _damaged("text", name, fault, _ADD_AGAIN) from fault


def _utf8(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise OptionError("the text has half of a surrogate pair", "decode it as UTF-8") from None


@dataclass(frozen=True)
class Record:
    """A document as a store keeps it: its entry, and the bytes of its memory, text and signature, checked when read."""

    entry: DocumentEntry
    memory_data: bytes
    text_data: bytes | None = None
    signature: bytes | None = field(default=None, compare=False)  # only to write it

    @classmethod
    def of(
        cls,
        entry: DocumentEntry,
        memory: Memory,
        *,
        text: str | bytes | None = None,
        signature: bytes | None = None,
    ) -> "Record":
        """Make the record of a document of what is known of it, with its sizes and the time of this change.

        The text may be given in UTF-8. A digest or time of creation that is not known is that of the text, or now.
        """
        memory_data, text_data, digest = memory.to_bytes(), None, entry.digest
        if text is not None:
            data = _utf8(text)
            text_data, digest = write_text(data, entry.name), digest or digest_of(data)
        changed = now()
        entry = msgspec.structs.replace(
            entry,
            digest=digest,
            created=entry.created or changed,
            changed=changed,
            tokens=memory.tokens,
            memory_bytes=len(memory_data),
            text_bytes=None if text_data is None else len(text_data),
        )
        return cls(entry, memory_data, text_data, signature)

    @property
    def name(self) -> str:
        return self.entry.name

    @cached_property
    def memory(self) -> Memory:
        return Memory.from_bytes(self.memory_data, self.name)

    @cached_property
    def text(self) -> str | None:
        """The text, if it was kept."""
        return None if self.text_data is None else read_text(self.text_data, self.name)
