"""A document's signature as the store keeps it, and how it is made: while the document is read, or from its text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, OptionError, RecordError
from attar.search.signatures import LONG_DOCUMENT, SignatureOptions, Sums, pack
from attar.search.state_map import Floats, one_thread
from attar.search.statistics import Projection, Statistics

# Loaded where it is used: torch takes seconds, and merging or listing documents needs none of it.
if TYPE_CHECKING:
    from attar.reader.reader import Reader

Tokens = tuple[NDArray[np.int64], Floats]


class TokenEncoder(Protocol):
    """Texts to word pieces `[n]` and their states `[n, d]`."""

    fingerprint: str
    size: int
    pieces: int
    # The reader that also answers questions, if it was trained for that.
    answering: "Reader | None"

    def encode(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """The word pieces and states of each text, in order; long texts are read in windows."""


class ReaderEncoder:
    """The encoder of a phrase reader; a question is read as a text."""

    def __init__(self, reader: "Reader", *, trained: bool = True) -> None:
        self.reader = reader
        self.answering: Reader | None = reader if trained else None
        self.fingerprint = reader.fingerprint
        self.size = reader.options.encoder.size
        self.pieces = reader.options.encoder.vocabulary

    def encode(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """The word pieces and states of each text, in order."""
        for text in texts:
            yield joined(self._windows(text), self.size)

    def _windows(self, text: str) -> list[Tokens]:
        found: list[Tokens] = []
        self.reader.token_states([text], lambda _, ids, states: found.append((ids, states)))
        return found


def joined(windows: Sequence[Tokens], size: int) -> Tokens:
    """The windows of one text as one."""
    if not windows:
        return np.zeros(0, np.int64), np.zeros((0, size), np.float32)
    return np.concatenate([ids for ids, _ in windows]), np.concatenate([states for _, states in windows])


_VERSION = 1


class SignatureRecord(msgspec.Struct, array_like=True, frozen=True):
    """What search keeps of a document: its signature, its word pieces with their counts, and perhaps its sums.

    `statistics` names what it was made with. Counts have one byte each, or four with sums. Arrays are little-endian;
    later versions add fields at the end.
    """

    version: int
    statistics: bytes
    size: int
    dtype: str
    tokens: int
    kept: float
    whole: float
    signature: bytes
    pieces: bytes
    counts: bytes
    triangle: bytes = b""
    total: bytes = b""

    @classmethod
    def of(
        cls, sums: Sums, statistics: bytes, options: SignatureOptions, *, keep_sums: bool
    ) -> "SignatureRecord":
        """The record of a document's sums."""
        counts = sums.counts.astype("<u4") if keep_sums else np.minimum(sums.counts, 255).astype(np.uint8)
        return cls(
            _VERSION,
            statistics,
            options.size,
            options.dtype,
            sums.tokens,
            sums.kept,
            sums.whole,
            pack(sums.signature(), options.dtype).tobytes(),
            sums.pieces.astype("<u2").tobytes(),
            counts.tobytes(),
            sums.triangle.astype("<f4").tobytes() if keep_sums else b"",
            sums.total.astype("<f4").tobytes() if keep_sums else b"",
        )

    def to_bytes(self) -> bytes:
        """The record as bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes, options: SignatureOptions | None = None) -> "SignatureRecord":
        """Read a record; one of other options, if given, or whose parts do not agree, is refused."""
        try:
            record = _records.decode(data)
            options = options or SignatureOptions(record.size, record.dtype)
        except (msgspec.DecodeError, UnicodeDecodeError, OptionError) as fault:
            raise RecordError.expected("signature", "the fields of this version", str(fault)) from fault
        triangle = (0, 4 * options.numbers)
        agree = (
            (record.version, record.size, record.dtype) == (_VERSION, options.size, options.dtype)
            and len(record.signature) == options.bytes
            and len(record.pieces) == len(record.counts) * (2 if not record.triangle else 0.5)
            and len(record.triangle) in triangle
            and bool(record.total) == bool(record.triangle)
            and len(record.total) % 4 == 0
        )
        if not agree:
            raise RecordError.expected("signature", f"{options.dtype}, k = {options.size}", "another one")
        return record

    @property
    def word_counts(self) -> tuple[NDArray[np.uint16], NDArray[Any]]:
        """The document's word pieces, and how often each occurs; 255 at most unless sums are kept."""
        return np.frombuffer(self.pieces, "<u2"), np.frombuffer(self.counts, "<u4" if self.triangle else "u1")

    def sums(self) -> Sums | None:
        """The sums before the root, if they are kept."""
        if not self.triangle:
            return None
        pieces, counts = self.word_counts
        triangle, total = (np.frombuffer(each, "<f4") for each in (self.triangle, self.total))
        if not (np.isfinite(triangle).all() and np.isfinite(total).all()):
            raise RecordError.expected("signature", "finite sums", "infinite ones or NaN")
        return Sums(
            triangle, total, self.kept, self.whole, self.tokens, pieces.copy(), counts.astype(np.int64)
        )


_records = msgspec.msgpack.Decoder(SignatureRecord)


def merged(records: Sequence[bytes]) -> bytes | None:
    """The record of documents joined, from the sums of each; None unless all keep theirs, of the same statistics."""
    read = [SignatureRecord.from_bytes(data) for data in records]
    sums = [each for record in read if (each := record.sums()) is not None]
    if not sums or len(sums) < len(records) or len({record.statistics for record in read}) > 1:
        return None
    options = SignatureOptions(read[0].size, read[0].dtype)
    return SignatureRecord.of(reduce(add, sums), read[0].statistics, options, keep_sums=True).to_bytes()


@dataclass
class Collector:
    """Adds up the sums of texts while a reader reads them: `reader.read_many(texts, on_states=collector)`."""

    projection: Projection
    sums: dict[int, Sums] = field(default_factory=dict)

    def __call__(self, number: int, ids: NDArray[np.int64], states: Floats) -> None:
        """Add one window of the text `number`."""
        own = Sums.of(ids, states, self.projection)
        self.sums[number] = self.sums[number] + own if number in self.sums else own

    def of(self, number: int = 0) -> Sums:
        """The sums of a text."""
        return self.sums.get(number) or Sums.empty(self.projection)


class _Fitted(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a store keeps in place of statistics alone where options are not the default ones."""

    statistics: bytes
    size: int
    dtype: str


def default_options(statistics: Statistics) -> SignatureOptions:
    """The options of signatures unless others are chosen."""
    return SignatureOptions(min(SignatureOptions.size, len(statistics.total)))


def fitted_data(statistics: Statistics, options: SignatureOptions) -> bytes:
    """What a store keeps, so that all processes make the same signatures: statistics, and options unless default."""
    if options == default_options(statistics):
        return statistics.data
    return msgspec.msgpack.encode(_Fitted(statistics.data, options.size, options.dtype))


def stored_options(data: bytes) -> tuple[bytes, SignatureOptions | None]:
    """The statistics of what a store keeps, as bytes, and the options; None for the default ones."""
    try:
        fitted = msgspec.msgpack.decode(data, type=_Fitted)
        return fitted.statistics, SignatureOptions(fitted.size, fitted.dtype)
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
    ):  # statistics alone, or damaged: who reads them finds out
        return data, None
    except OptionError as fault:
        raise FormatError.expected(
            "statistics", "options of signatures", str(fault), "fit them again"
        ) from fault


@dataclass(frozen=True)
class Signer:
    """Makes signatures of documents and of queries, with one projection; `data` is what a store keeps of it."""

    encoder: ReaderEncoder
    statistics: Statistics
    projection: Projection
    options: SignatureOptions
    data: bytes

    @classmethod
    def of(
        cls, encoder: ReaderEncoder, statistics: Statistics, options: SignatureOptions | None = None
    ) -> "Signer":
        """A signer of a reader's states, with the statistics of a corpus."""
        options = options or default_options(statistics)
        data = fitted_data(statistics, options)
        # Named with its options: sums of another size, or signatures of another type, are not compared.
        projection = replace(statistics.projection(options.size), digest=Statistics.digest_of(data))
        return cls(encoder, statistics, projection, options, data)

    def record(self, sums: Sums, *, text_kept: bool) -> bytes:
        """A document's record; the sums stay in it if the document is long, or its text is not kept."""
        keep = sums.tokens > LONG_DOCUMENT or not text_kept
        return SignatureRecord.of(sums, self.projection.digest, self.options, keep_sums=keep).to_bytes()

    def sums(self, text: str) -> Sums:
        """The sums of a text, read only for them."""
        return self.read([text])[0]

    def query(self, text: str) -> Sums:
        """The sums of a query."""
        collector = Collector(self.projection)
        # Several threads round in another way, and a query must rank documents alike in every process.
        with one_thread():
            self.encoder.reader.query_states(text, collector)
        return collector.of()

    def read(
        self, texts: Sequence[str], progress: Callable[[str, int, int], None] | None = None
    ) -> list[Sums]:
        """The sums of texts, read only for them."""
        found = []
        for at, text in enumerate(texts):
            if progress is not None:
                progress("signatures", at, len(texts))
            collector = Collector(self.projection)
            self.encoder.reader.token_states([text], collector)
            found.append(collector.of())
        return found
