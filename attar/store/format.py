"""The format on disk: keys, the envelope around each value, and the structs inside.

LMDB maps keys to values. A key is one letter for the kind, two of them in `signatures.py`, and the document's name:

| kind | value |
|---|---|
| `a` | the store's `Header`, msgpack; the only key without a name |
| `f` | a document's `DocumentEntry`, msgpack |
| `m` | its memory, as `attar.memory.record` describes |
| `t` | its text if kept, UTF-8 compressed by zlib |

Every value lies in an envelope, little-endian:

| bytes | content |
|---|---|
| 0-3 | `Attr` |
| 4-5 | the format's version |
| 6 | kind, as above |
| 7 | p, the number of zero bytes between this header and the payload |
| 8-11 | CRC-32 of the header without these four bytes, and of all that follows |
| 12-15 | the payload's length |
| 16+p … | the payload |
"""

import hashlib
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from attar.errors import OptionError, RecordError, quoted
from attar.memory.forms import FORMS, PRECISIONS
from attar.memory.memory import Memory
from attar.store.origin import Origin, pack_parts

Buffer = bytes | memoryview
Kind = Literal[b"a", b"f", b"m", b"t", b"s", b"j"]

VERSION = 1
MAGIC = b"Attr"
HEADER_KEY = b"a"
_START = struct.Struct("<4sHcB")
_ENVELOPE = struct.Struct("<8sII")
# Where an envelope keeps the payload's length, and the largest that fits.
LENGTH_AT = 12
LIMIT = 2**32 - 4096

# LMDB puts a large value 16 bytes after a page's start. With this padding a memory is aligned to a cache line.
PADDING: dict[Kind, int] = {b"a": 0, b"f": 0, b"m": 32, b"t": 0, b"s": 0, b"j": 0}
# By kind: where the payload starts, and the envelope's first eight bytes.
ENVELOPES = {kind: (_ENVELOPE.size + p, _START.pack(MAGIC, VERSION, kind, p)) for kind, p in PADDING.items()}
_NOUNS = dict(zip(PADDING, ("header", "entry", "memory", "text", "signature", "changes"), strict=True))

# LMDB's keys have at most 511 bytes. A longer name is cut and followed by its SHA-256. Such keys are longer than
# any other, so they never collide with the key of a short name; the entry holds the whole name.
LONGEST_PLAIN_KEY = 511 - 1 - hashlib.sha256().digest_size

# zlib's level 1 takes 0.09 µs per token and leaves 46 % of the size; level 6 takes 0.34 µs and leaves 39 %.
_COMPRESSION = 1


def key_of(name: str) -> bytes:
    """Return the key of a name, without the letter for the kind.

    >>> key_of("Emma, ch. 1"), len(key_of("x" * 10_000))
    (b'Emma, ch. 1', 510)
    """
    try:
        key = name.encode()
    except UnicodeEncodeError:
        raise OptionError.expected(
            f"name {quoted(name)}", "text", "half of a surrogate pair", "rename it"
        ) from None
    if not key:
        raise OptionError.expected("name", "at least one character", "an empty one")
    if len(key) > LONGEST_PLAIN_KEY:
        return key[:LONGEST_PLAIN_KEY] + hashlib.sha256(key).digest()
    return key


def check_name(name: str) -> None:
    """Raise `OptionError` for a name that no document can have: an empty one, or one that is not Unicode text."""
    key_of(name)


def values_of(transaction: Any, kind: Kind, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
    """Yield the key, without the letter of its kind, and the value of each of a kind, from the key `start` on."""
    with transaction.cursor() as cursor:
        for key, value in cursor if cursor.set_range(kind + start) else ():
            if bytes(key[:1]) != kind:
                break
            yield bytes(key[1:]), value


def wrap(kind: Kind, payload: Buffer, version: int = VERSION) -> bytes:
    """Put a payload into an envelope.

    >>> bytes(unwrap(b"f", wrap(b"f", b"an entry"), "emma"))
    b'an entry'
    """
    if len(payload) > LIMIT:
        raise OptionError.expected(
            _NOUNS[kind], f"at most {LIMIT:,} bytes", f"{len(payload):,}", "split the document"
        )
    start, zeros = _START.pack(MAGIC, version, kind, PADDING[kind]), bytes(PADDING[kind])
    length = len(payload).to_bytes(4, "little")
    crc = zlib.crc32(payload, zlib.crc32(start + length + zeros))
    return b"".join((start, crc.to_bytes(4, "little"), length, zeros, payload))


def unwrap(kind: Kind, value: Buffer, name: str, check: bool = True) -> memoryview:
    """Return the payload of an envelope, without copying; `check=False` skips only the checksum."""
    view = value if type(value) is memoryview else memoryview(value)
    payload_at, expected = ENVELOPES[kind]
    size = len(view)
    if size < payload_at:
        raise _damaged(kind, name, f"{size} bytes of it")
    start, crc, length = _ENVELOPE.unpack_from(view)
    if start != expected:
        raise _unexpected(kind, name, view)
    if length != size - payload_at:
        raise _damaged(kind, name, f"{size - payload_at:,} of {length:,} bytes")
    if check and crc != checksum(view):
        raise _damaged(kind, name, "a wrong checksum")
    return view[payload_at:]


def version_of(value: Buffer) -> int:
    """Return the version that an envelope was written in, or 0 if it is not an envelope.

    >>> version_of(wrap(b"a", b"")), version_of(b"something else")
    (1, 0)
    """
    if len(value) < _ENVELOPE.size or bytes(value[:4]) != MAGIC:
        return 0
    return int.from_bytes(value[4:6], "little")


def checksum(value: Buffer) -> int:
    """Compute the checksum of an envelope."""
    view = memoryview(value)
    return zlib.crc32(view[LENGTH_AT:], zlib.crc32(view[:8]))


def _unexpected(kind: Kind, name: str, view: memoryview) -> RecordError:
    version = version_of(view)
    # A flipped bit in the version must not look like a newer version.
    if version in (0, VERSION) or checksum(view) != _ENVELOPE.unpack_from(view)[1]:
        return _damaged(kind, name, "other bytes")
    what = f"{_NOUNS[kind]} of {quoted(name)}"
    remedy = "update attar" if version > VERSION else "open the store for writing once, which upgrades it"
    return RecordError.expected(what, f"version {VERSION}", f"version {version}", remedy)


def _damaged(kind: Kind, name: str, came: str) -> RecordError:
    remedy = "add the document again, or restore the store from a copy"
    return RecordError.expected(f"{_NOUNS[kind]} of {quoted(name)}", "a whole record", came, remedy)


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# Up to the year 9999, the last that Python's datetime has.
_Time = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999_999)]
if TYPE_CHECKING:
    _Form: TypeAlias = str
    _Dtype: TypeAlias = str
else:
    _Form, _Dtype = Literal[FORMS], Literal[PRECISIONS]


class DocumentEntry(msgspec.Struct, frozen=True, array_like=True):
    """What the store knows of a document without its memory: a small value, so that lists are quick.

    Times are in microseconds since 1970, UTC. Later versions add fields at the end, with defaults.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    title: str
    digest: Annotated[bytes, msgspec.Meta(max_length=32)]
    created: _Time
    changed: _Time
    tokens: _Count
    form: _Form
    dtype: _Dtype
    memory_bytes: _Count
    text_bytes: _Count | None = None
    # Ids of the last changes that a client may repeat, the newest last.
    applied: tuple[Annotated[bytes, msgspec.Meta(max_length=32)], ...] = ()
    # Whether the table of names is full, so that names of the text may be missing.
    names_full: bool = False
    # The file that it was read from and has not been changed since, the document's own date, and `pack_parts`.
    source: str = ""
    date: str = ""
    parts: bytes = b""
    # The most bytes that its memory may take, also when it is continued; 0: any number.
    budget: _Count = 0


class Header(msgspec.Struct, frozen=True, array_like=True):
    """The store's header: the reader and dtype of its memories, and the totals over all documents."""

    reader: str | None
    dtype: _Dtype
    created: _Time
    documents: int = 0
    tokens: int = 0
    memory_bytes: int = 0
    text_bytes: int = 0

    def plus(self, entry: DocumentEntry, times: int = 1) -> "Header":
        """Add a document to the totals, or subtract it with `times=-1`.

        >>> header = Header("r", "float32", 0).plus(DocumentEntry("a", "", b"", 0, 0, 7, "last", "float32", 400))
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


encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(DocumentEntry).decode
_headers = msgspec.msgpack.Decoder(Header)


def read_entry(value: Buffer, name: str) -> DocumentEntry:
    """Read the value of a document's entry."""
    try:
        return decode_entry(unwrap(b"f", value, name))
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise RecordError.expected(
            f"entry of {quoted(name)}", "the fields of this version", str(fault)
        ) from fault


def read_header(value: Buffer, store: str) -> Header:
    """Read the value of a store's header."""
    try:
        return _headers.decode(unwrap(b"a", value, store))
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        what, remedy = f"header of {quoted(store)}", f"rebuild it: attar store repair {store}"
        raise RecordError.expected(what, "the fields of this version", str(fault), remedy) from fault


def now() -> int:
    """Return the time as the store keeps it: microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def digest_of(text: str) -> bytes:
    """Return a text's SHA-256, by which the store recognizes a text that it already has.

    >>> digest_of("Emma").hex()[:8]
    'd9dacb3e'
    """
    return hashlib.sha256(_utf8(text)).digest()


def compress(text: str) -> bytes:
    """Compress a text as the store keeps it."""
    return zlib.compress(_utf8(text), _COMPRESSION)


def decompress(data: Buffer, name: str) -> str:
    """Decompress a text.

    >>> decompress(compress("Emma Woodhouse"), "emma")
    'Emma Woodhouse'
    """
    try:
        return zlib.decompress(data).decode()
    except (zlib.error, UnicodeDecodeError) as fault:
        raise RecordError.expected(f"text of {quoted(name)}", "a compressed text", str(fault)) from fault


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise OptionError.expected("text", "text", "half of a surrogate pair", "decode it as UTF-8") from None


@dataclass(frozen=True)
class Record:
    """A document as it lies in the store: its entry, the memory's bytes, the compressed text's bytes.

    Inside `Store.snapshot` the bytes are views into the file, valid until the snapshot ends.
    """

    entry: DocumentEntry
    memory_data: Buffer
    text_data: Buffer | None = None
    signature: bytes | None = field(default=None, compare=False)  # only to write it

    @classmethod
    def of(
        cls,
        name: str,
        memory: Memory,
        *,
        title: str = "",
        text: str | None = None,
        digest: bytes | None = None,
        created: int | None = None,
        applied: tuple[bytes, ...] = (),
        signature: bytes | None = None,
        origin: Origin | None = None,
        budget: int = 0,
    ) -> "Record":
        """Make the record of a document; `digest` is that of `text` unless given."""
        memory_data = memory.to_bytes()
        text_data = None if text is None else compress(text)
        if digest is None:
            digest = b"" if text is None else digest_of(text)
        changed = now()
        created = changed if created is None else created
        sizes = len(memory_data), None if text_data is None else len(text_data)
        source, date, parts = origin or Origin()
        entry = DocumentEntry(
            name, title, digest, created, changed, memory.tokens, memory.form, memory.dtype, *sizes,
            applied=applied, names_full=memory.names.is_full, source=source, date=date,
            parts=pack_parts(parts) if parts else b"", budget=budget,
        )  # fmt: skip
        return cls(entry, memory_data, text_data, signature)

    @property
    def name(self) -> str:
        """The document's name."""
        return self.entry.name

    @property
    def memory(self) -> Memory:
        """The memory, on the record's own bytes."""
        return Memory.from_bytes(self.memory_data, check=False)

    @property
    def text(self) -> str | None:
        """The text, if it was kept."""
        return None if self.text_data is None else decompress(self.text_data, self.name)

    def copied(self) -> "Record":
        """Copy the record's bytes, so that they stay valid after the snapshot."""
        text = None if self.text_data is None else bytes(self.text_data)
        return Record(self.entry, bytes(self.memory_data), text)
