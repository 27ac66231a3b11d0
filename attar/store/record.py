"""What the store keeps of a document: its facts, its memory, and its text where that is wanted."""

import hashlib
import time
import zlib
from dataclasses import dataclass

import msgspec

from attar.errors import OptionError, RecordError
from attar.memory import Memory
from attar.store.faults import quoted
from attar.store.seal import Buffer

# 0.09 µs a token and 46 % of the size; level 6 takes 0.34 µs for 39 %, beside 4 µs a token for reading.
LEVEL = 1


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What can be said of a document without its memory: one small value, so lists need no numbers.

    Later versions add fields at the end, with defaults.
    """

    name: str
    title: str
    digest: bytes
    created: int
    changed: int
    tokens: int
    form: str
    dtype: str
    memory_bytes: int
    text_bytes: int | None = None


class About(msgspec.Struct, frozen=True, array_like=True):
    """The store's own head: whose memories it holds, in which numbers, and how many of everything."""

    reader: str | None
    dtype: str
    created: int
    documents: int = 0
    tokens: int = 0
    memory_bytes: int = 0
    text_bytes: int = 0

    def plus(self, facts: Facts, times: int = 1) -> "About":
        """Count a document in, or with `times=-1` out.

        >>> about = About("r", "float32", 0).plus(Facts("a", "", b"", 0, 0, 7, "last", "float32", 400))
        >>> about.documents, about.tokens, about.memory_bytes
        (1, 7, 400)
        """
        return msgspec.structs.replace(
            self,
            documents=self.documents + times,
            tokens=self.tokens + times * facts.tokens,
            memory_bytes=self.memory_bytes + times * facts.memory_bytes,
            text_bytes=self.text_bytes + times * (facts.text_bytes or 0),
        )


encode = msgspec.msgpack.Encoder().encode
_facts = msgspec.msgpack.Decoder(Facts)
_about = msgspec.msgpack.Decoder(About)


def facts_from(payload: Buffer, name: str) -> Facts:
    """Decode a document's facts."""
    try:
        return _facts.decode(payload)
    except msgspec.DecodeError as fault:
        raise RecordError(f"facts of {quoted(name)}", "the fields of this version", str(fault)) from fault


def about_from(payload: Buffer, name: str) -> About:
    """Decode a store's head."""
    try:
        return _about.decode(payload)
    except msgspec.DecodeError as fault:
        raise RecordError(f"head of {quoted(name)}", "the fields of this version", str(fault)) from fault


def now() -> int:
    """Give the time as the store keeps it: microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def digest_of(text: str) -> bytes:
    """Give a text's digest, by which the same text is known again.

    >>> digest_of("Emma").hex()[:8]
    'd9dacb3e'
    """
    return hashlib.sha256(_utf8(text)).digest()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise OptionError("text", "text", "half of a surrogate pair", "decode it as UTF-8") from None


@dataclass(frozen=True)
class Record:
    """A document as it lies in the store: facts, the memory's bytes, the compressed text's bytes.

    Inside `Store.reading` the bytes are views into the file, valid until it ends.
    """

    facts: Facts
    memory_data: Buffer
    text_data: Buffer | None = None

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
    ) -> "Record":
        """Make the record of a document, now; `text` is kept where given, and `digest` is its own by default."""
        data = memory.to_bytes()
        packed = None if text is None else packed_text(text)
        if digest is None:
            digest = b"" if text is None else digest_of(text)
        moment = now()
        facts = Facts(
            name,
            title,
            digest,
            moment if created is None else created,
            moment,
            memory.tokens,
            memory.form,
            str(memory.numbers.dtype),
            len(data),
            None if packed is None else len(packed),
        )
        return cls(facts, data, packed)

    @property
    def name(self) -> str:
        """The document's name."""
        return self.facts.name

    @property
    def memory(self) -> Memory:
        """The memory, on the record's own bytes."""
        return Memory.from_bytes(self.memory_data, check=False)

    @property
    def text(self) -> str | None:
        """The text, if it was kept."""
        return None if self.text_data is None else text_from(self.text_data, self.name)

    def copied(self) -> "Record":
        """Give the same record on bytes of its own, which outlive the store's reading."""
        text = None if self.text_data is None else bytes(self.text_data)
        return Record(self.facts, bytes(self.memory_data), text)


def packed_text(text: str) -> bytes:
    """Compress a text as the store keeps it."""
    return zlib.compress(_utf8(text), LEVEL)


def text_from(packed: Buffer, name: str) -> str:
    """Decompress a text.

    >>> text_from(packed_text("Emma Woodhouse"), "emma")
    'Emma Woodhouse'
    """
    try:
        return zlib.decompress(packed).decode()
    except (zlib.error, UnicodeDecodeError) as fault:
        raise RecordError(f"text of {quoted(name)}", "a compressed text", str(fault)) from fault
